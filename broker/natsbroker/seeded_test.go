package natsbroker_test

import (
	"context"
	"net"
	"testing"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/brokertest"
	"github.com/skald-go/skald/broker/natsbroker"
	"github.com/skald-go/skald/internal/seeded"
)

// mutant is the driver with one bug in its subscriptions.
type mutant struct {
	bug   string
	finds string // the test of the suite that must fail
	says  string // what that test prints, as a pattern

	stays, forgets, leaks, hoards bool
}

// Each was passed by the suite until somebody looked.
var mutants = []mutant{
	{bug: "a member never leaves", finds: "Groups/CloseHandsOverImmediately", says: `owns|partitions`,
		stays: true},
	{bug: "an acknowledgement is not sent", finds: "Life/ConnectionLostAtEveryStep",
		says: `came|acknowledged`, forgets: true},
	{bug: "a pause ends with the first message", finds: "Pause/StopsOnlyItsPartition",
		says: `published to a paused partition, came`, leaks: true},
	{bug: "a member fetches all that is there", finds: "Groups/SlowConsumer",
		says: `holds \d+ messages, at most`, hoards: true},
}

// TestMutant is the suite over the mutant that the process is to have.
func TestMutant(t *testing.T) {
	for _, m := range mutants {
		if m.bug == seeded.Bug() {
			addr := serve(t, t.TempDir(), 0).Addr().String()
			brokertest.Run(t, func(t *testing.T) brokertest.Harness { return m.harness(t, addr) })
			return
		}
	}
	t.Skip("TestBugsThatTheSuiteOncePassed runs this test, in processes with a bug")
}

// TestBugsThatTheSuiteOncePassed: now it finds each.
func TestBugsThatTheSuiteOncePassed(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs the suite on each bug: in make test")
	}
	for _, m := range mutants {
		t.Run(m.bug, func(t *testing.T) {
			t.Parallel()
			seeded.Find(t, m.bug, "^TestMutant$/"+m.finds, m.says)
		})
	}
}

func (m mutant) harness(t *testing.T, addr string) brokertest.Harness {
	h := harness(t, addr)
	wrap := func(open func(*testing.T) brokertest.Broker) func(*testing.T) brokertest.Broker {
		return func(t *testing.T) brokertest.Broker { return mutated{open(t), m} }
	}
	if m.hoards {
		h.Frugal = h.Open
	}
	h.Open, h.Lasting, h.Frugal = wrap(h.Open), wrap(h.Lasting), wrap(h.Frugal)
	via, held := h.Via, h.Unacknowledged
	h.Via = func(t *testing.T,
		dial func(context.Context, string, string) (net.Conn, error)) brokertest.Broker {
		return mutated{via(t, dial), m}
	}
	h.Unacknowledged = func(s broker.Subscription) int { return held(s.(*mutatedMember).Subscription) }
	return h
}

type mutated struct {
	broker.Broker
	m mutant
}

func (b mutated) Subscribe(ctx context.Context, g broker.Group) (broker.Subscription, error) {
	s, err := b.Broker.Subscribe(ctx, g)
	if err != nil {
		return nil, err
	}
	return &mutatedMember{s.(*natsbroker.Subscription), b.m, nil}, nil
}

type mutatedMember struct {
	*natsbroker.Subscription
	m      mutant
	paused []string
}

func (s *mutatedMember) Close(ctx context.Context) error {
	if s.m.stays {
		return nil
	}
	return s.Subscription.Close(ctx)
}

func (s *mutatedMember) Ack(ctx context.Context, ds []broker.Delivery) error {
	if s.m.forgets {
		return nil
	}
	return s.Subscription.Ack(ctx, ds)
}

func (s *mutatedMember) Pause(partitions ...string) {
	s.Subscription.Pause(partitions...)
	s.paused = append(s.paused, partitions...)
}

func (s *mutatedMember) Receive(ctx context.Context, most int) (broker.Batch, error) {
	got, err := s.Subscription.Receive(ctx, most)
	if s.m.leaks && len(got.Deliveries) > 0 {
		s.Subscription.Resume(s.paused...)
	}
	return got, err
}
