package kafkabroker_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
)

// TestQueuedSuccessorsFailWithTheirPredecessor: what was handed over before the answer is held back even if
// its round begins long after the answer was asked for.
// Interleaving 7.
func TestQueuedSuccessorsFailWithTheirPredecessor(t *testing.T) {
	fake := newFake(t)
	b := open(t, fake.seeds, &kafkabroker.Options{Round: 1})
	must(t, b.MakeTopics(t.Context(), 1, "t"))
	must(t, b.Publish(t.Context(), numbered(0, 1)).Wait(t.Context()))
	var requests atomic.Int32
	gate := make(chan struct{})
	fake.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		if requests.Add(1) == 2 {
			<-gate
		}
		return nil, nil, false
	})
	fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.InvalidRecord})
	first := b.Publish(t.Context(), numbered(1, 2))
	between := b.Publish(t.Context(), []skald.Message{{ID: "other", Topic: "t", Key: []byte("other")}})
	behind := b.Publish(t.Context(), numbered(2, 3))
	if first.Wait(t.Context()) == nil {
		t.Fatal("published what Kafka refused")
	}
	close(gate)
	must(t, between.Wait(t.Context()))
	if behind.Wait(t.Context()) == nil {
		t.Fatal("number 2 overtook number 1")
	}
	must(t, b.Publish(t.Context(), numbered(1, 3)).Wait(t.Context()))
	sub, err := b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{"t"}})
	must(t, err)
	for i, want := range []string{"000000", "other", "000001", "000002"} {
		if got := take(t, sub, 1)[0].ID; got != want {
			t.Errorf("message %d is %s, want %s", i, got, want)
		}
	}
}

// TestHandOverCommits: with nothing committed meanwhile, partitions that move and members that leave take
// their acknowledgements along.
func TestHandOverCommits(t *testing.T) {
	fake := newFake(t)
	b := open(t, fake.seeds, &kafkabroker.Options{Commit: time.Hour, Heartbeat: 50 * time.Millisecond})
	must(t, b.MakeTopics(t.Context(), 2, "t"))
	g := broker.Group{Name: "g", Topics: []string{"t"}}
	one, err := b.Subscribe(t.Context(), g)
	must(t, err)
	msgs := numbered(0, 20)
	for i := range msgs {
		msgs[i].Key = []byte(msgs[i].ID)
	}
	must(t, b.Publish(t.Context(), msgs).Wait(t.Context()))
	must(t, one.Ack(t.Context(), take(t, one, 20)))
	two, err := b.Subscribe(t.Context(), g)
	must(t, err)
	until(t, "the partition of the second", func() bool { return idle(t, one, two) > 0 })
	must(t, one.Close(t.Context()))
	until(t, "the other partition", func() bool { return idle(t, two) > 0 })
	must(t, b.Publish(t.Context(), numbered(20, 21)).Wait(t.Context()))
	if d := take(t, two, 1)[0]; d.ID != "000020" {
		t.Errorf("%s came again", d.ID)
	}
}

// idle receives with all members. It returns the number of partitions that the last member gained.
func idle(t *testing.T, subs ...broker.Subscription) (gained int) {
	t.Helper()
	for _, s := range subs {
		got, err := s.Receive(t.Context(), 100)
		must(t, err)
		for _, d := range got.Deliveries {
			t.Fatalf("%s came again", d.ID)
		}
		gained = len(got.Gained)
	}
	return gained
}

// TestSlowMemberKeepsItsPartitions: who does not receive for longer than a session is still a member.
func TestSlowMemberKeepsItsPartitions(t *testing.T) {
	fake := newFake(t, kfake.GroupMinSessionTimeout(100*time.Millisecond))
	// a shorter one a slow machine may sleep through
	b := open(t, fake.seeds, &kafkabroker.Options{Session: 3 * time.Second, Prefetch: 1})
	must(t, b.MakeTopics(t.Context(), 1, "t"))
	must(t, b.Publish(t.Context(), numbered(0, 10)).Wait(t.Context()))
	g := broker.Group{Name: "g", Topics: []string{"t"}}
	one, err := b.Subscribe(t.Context(), g)
	must(t, err)
	take(t, one, 1)
	fetches := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Observe: true, Count: -1})
	must(t, fetches.Wait(t.Context(), 8)) // more than a session's worth of heartbeats
	got, err := one.Receive(t.Context(), 100)
	must(t, err)
	if len(got.Lost) > 0 {
		t.Errorf("lost %v", got.Lost)
	}
	take(t, one, 9-len(got.Deliveries))
}

// TestFailureLeavesAPrefix: when a request fails while a long call is handed to franz-go, nothing behind it
// goes out. Without rounds the first of thousands fails, and the last are published.
func TestFailureLeavesAPrefix(t *testing.T) {
	fake := newFake(t)
	b := open(t, fake.seeds, nil)
	must(t, b.MakeTopics(t.Context(), 1, "t"))
	must(t, b.Publish(t.Context(), numbered(0, 1)).Wait(t.Context()))
	msgs := numbered(1, 20_000)
	for range 5 {
		fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.UnknownServerError})
		var pe *broker.PublishError
		if err := b.Publish(t.Context(), msgs).Wait(t.Context()); !errors.As(err, &pe) {
			t.Fatalf("got %v, want a *broker.PublishError", err)
		}
		if bad := pe.Indexes(); bad[len(bad)-1] != len(msgs)-1 || len(bad) != len(msgs)-bad[0] {
			t.Fatalf("%d of %d are not durable, from %d to %d: the others overtook", len(bad), len(msgs),
				bad[0], bad[len(bad)-1])
		}
	}
}

// TestWaitThatGaveUpHoldsNothing: whoever could not wait may start again, though the call fails later.
func TestWaitThatGaveUpHoldsNothing(t *testing.T) {
	fake := newFake(t)
	b := open(t, fake.seeds, nil)
	must(t, b.MakeTopics(t.Context(), 1, "t"))
	must(t, b.Publish(t.Context(), numbered(0, 1)).Wait(t.Context()))
	gate := make(chan struct{})
	fake.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		<-gate
		return nil, nil, false
	})
	fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.UnknownServerError})
	call := b.Publish(t.Context(), numbered(1, 2))
	ended, end := context.WithCancel(t.Context())
	end()
	if err := call.Wait(ended); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	close(gate)
	until(t, "a publish that is not held back", func() bool {
		return b.Publish(t.Context(), numbered(1, 2)).Wait(t.Context()) == nil
	})
}

// TestTopicMadeAnew: what the client knew of the old one does not stand in the way.
func TestTopicMadeAnew(t *testing.T) {
	fake := newFake(t)
	b := open(t, fake.seeds, &kafkabroker.Options{Patience: 5 * time.Second})
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(fake.seeds, ",")...))
	must(t, err)
	defer cl.Close()
	must(t, b.MakeTopics(t.Context(), 1, "t"))
	must(t, b.Publish(t.Context(), numbered(0, 1)).Wait(t.Context()))
	_, err = kadm.NewClient(cl).DeleteTopics(t.Context(), "t")
	must(t, err)
	until(t, "the refusal", func() bool {
		return errors.Is(b.Publish(t.Context(), numbered(1, 2)).Wait(t.Context()), broker.ErrNoTopic)
	})
	must(t, b.MakeTopics(t.Context(), 1, "t"))
	until(t, "the new topic",
		func() bool { return b.Publish(t.Context(), numbered(1, 2)).Wait(t.Context()) == nil })
	sub, err := b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{"t"}})
	must(t, err)
	if d := take(t, sub, 1)[0]; d.ID != "000001" {
		t.Errorf("got %s", d.ID)
	}
}
