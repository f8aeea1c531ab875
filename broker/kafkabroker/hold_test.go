package kafkabroker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
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

// mute is a network in which one broker stops to answer. Connections stay open, and no bytes arrive from this
// broker.
type mute struct {
	addr atomic.Pointer[string]
	deaf atomic.Bool // nothing comes to it, either
	mu   sync.Mutex
	gate chan struct{}
}

func (m *mute) silence(addr string) (end func()) {
	m.mu.Lock()
	gate := make(chan struct{})
	m.gate = gate
	m.mu.Unlock()
	m.addr.Store(&addr)
	return sync.OnceFunc(func() { m.addr.Store(nil); close(gate) })
}

func (m *mute) dial(ctx context.Context, network, host string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, host)
	return &muteConn{c, m, host, make(chan struct{})}, err
}

type muteConn struct {
	net.Conn
	m      *mute
	host   string
	closed chan struct{}
}

func (c *muteConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.wait()
	return n, err
}

func (c *muteConn) Write(b []byte) (int, error) {
	if c.m.deaf.Load() {
		c.wait()
	}
	return c.Conn.Write(b)
}

// wait returns when the broker answers again.
func (c *muteConn) wait() {
	if at := c.m.addr.Load(); at != nil && *at == c.host {
		c.m.mu.Lock()
		gate := c.m.gate
		c.m.mu.Unlock()
		select {
		case <-gate:
		case <-c.closed:
		}
	}
}

func (c *muteConn) Close() error {
	select {
	case <-c.closed:
	default:
		close(c.closed)
	}
	return c.Conn.Close()
}

// spread is a client of a topic that has the leaders of its partitions on several brokers.
type spread struct {
	b       *kafkabroker.Broker
	line    *mute
	leaders []string // by partition, host:port
}

func newSpread(t *testing.T, patience time.Duration, round int) *spread {
	fake, s := newFake(t), &spread{line: &mute{}}
	s.b = open(t, fake.seeds, &kafkabroker.Options{
		Patience: patience, Round: round, Client: []kgo.Opt{kgo.Dialer(s.line.dial)},
		Partition: func(_ string, key []byte, n int) int { return int(key[0]-'0') % n },
	})
	must(t, s.b.MakeTopics(t.Context(), 6, "t"))
	for i := range int32(6) { // chance may give all to one
		must(t, fake.MoveTopicPartition("t", i, i%3))
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(fake.seeds, ",")...))
	must(t, err)
	defer cl.Close()
	md, err := kadm.NewClient(cl).Metadata(t.Context(), "t")
	must(t, err)
	at := map[int32]string{}
	for _, n := range md.Brokers {
		at[n.NodeID] = net.JoinHostPort(n.Host, fmt.Sprint(n.Port))
	}
	for i := range int32(6) {
		s.leaders = append(s.leaders, at[md.Topics["t"].Partitions[i].Leader])
	}
	for i := range 6 { // all known, and connected, on a slow machine not within the patience
		until(t, "the first",
			func() bool { return s.b.Publish(t.Context(), s.to(i, "first")).Wait(t.Context()) == nil })
	}
	return s
}

func (s *spread) to(partition int, ids ...string) (out []skald.Message) {
	for _, id := range ids {
		out = append(out, skald.Message{ID: id, Source: "s", Type: "t", Topic: "t",
			Key: []byte{byte('0' + partition)}})
	}
	return out
}

// other returns a partition that has another leader than partition 0.
func (s *spread) other(t *testing.T) int {
	for i, at := range s.leaders {
		if at != s.leaders[0] {
			return i
		}
	}
	t.Fatal("one broker leads everything")
	return 0
}

// TestSilentLeaderStallsItsOwnPartitionsOnly: while one broker does not answer, what others lead is published
// at once, and what it leads is told as an outage, in order, and comes once it speaks again.
func TestSilentLeaderStallsItsOwnPartitionsOnly(t *testing.T) {
	s := newSpread(t, 6*time.Second, 0)
	other := s.other(t)
	speak := s.line.silence(s.leaders[0])
	defer speak()
	stuck := s.b.Publish(t.Context(), append(s.to(0, "a"), s.to(other, "b")...))
	behind := s.b.Publish(t.Context(), s.to(0, "c"))
	for i, given := 0, false; i < 20 && !given; i++ {
		must(t, s.b.Publish(t.Context(), s.to(other, fmt.Sprint("n", i))).Wait(t.Context()))
		select {
		case <-stuck.Done(): // a slow machine may take so long for all of them
			if given = true; i == 0 {
				t.Fatal("the others waited until the silent one was given up")
			}
		default:
		}
	}
	var pe *broker.PublishError
	if err := stuck.Wait(t.Context()); !errors.As(err, &pe) || len(pe.Failed) != 1 ||
		!errors.Is(pe.Failed[0], broker.ErrUnavailable) {
		t.Errorf("got %v, want the first alone, away", err)
	}
	names(t, stuck.Wait(t.Context()), "t/0")
	if err := behind.Wait(t.Context()); err == nil || errors.As(err, &pe) || !errors.Is(err,
		broker.ErrUnavailable) {
		t.Errorf("got %v, want an outage", err)
	}
	again := s.b.Publish(t.Context(), s.to(0, "a", "c", "d"))
	must(t, s.b.Publish(t.Context(), s.to(other, "n20")).Wait(t.Context()))
	speak()
	until(t, "the rest", func() bool {
		err := again.Wait(t.Context())
		if err != nil {
			again = s.b.Publish(t.Context(), s.to(0, "a", "c", "d"))
		}
		return err == nil
	})
	sub, err := s.b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{"t"}})
	must(t, err)
	inOrder(t, sub, "t/0", "first", "a", "c", "d")
}

// inOrder receives messages until the message last of a partition arrives. It checks the order of the first
// deliveries.
func inOrder(t *testing.T, sub broker.Subscription, partition string, want ...string) {
	t.Helper()
	seen, next := map[string]bool{}, 0
	until(t, want[len(want)-1], func() bool {
		got, err := sub.Receive(t.Context(), 100)
		must(t, err)
		for _, d := range got.Deliveries {
			if d.Partition != partition || seen[d.ID] {
				continue
			}
			if seen[d.ID] = true; next == len(want) || d.ID != want[next] {
				t.Fatalf("%s came, %d of %v came before", d.ID, next, want)
			}
			next++
		}
		return next == len(want)
	})
}

// TestHangingFailureHoldsBackWhatWaited: what waits behind a hanging message fails with it.
func TestHangingFailureHoldsBackWhatWaited(t *testing.T) {
	fake := newFake(t)
	b := open(t, fake.seeds, &kafkabroker.Options{Patience: 5 * time.Minute})
	must(t, b.MakeTopics(t.Context(), 1, "t"))
	must(t, b.MakeTopics(t.Context(), 1, "u"))
	must(t, b.Publish(t.Context(), numbered(0, 1)).Wait(t.Context()))
	answer := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1,
		Topic: "t"})
	first := b.Publish(t.Context(), numbered(1, 2))
	second := b.Publish(t.Context(), numbered(2, 3))
	must(t,
		b.Publish(t.Context(), []skald.Message{{ID: "x", Topic: "u", Key: []byte("k")}}).Wait(t.Context()))
	third := b.Publish(t.Context(), numbered(3, 4))
	// the next in line
	fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.InvalidRecord, Topic: "t"})
	answer.Remove()
	if first.Wait(t.Context()) == nil {
		t.Fatal("published what Kafka refused")
	}
	if second.Wait(t.Context()) == nil || third.Wait(t.Context()) == nil {
		t.Error("a successor of what was refused went out")
	}
	must(t, b.Publish(t.Context(), numbered(1, 4)).Wait(t.Context()))
	sub, err := b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{"t"}})
	must(t, err)
	inOrder(t, sub, "t/0", "000000", "000001", "000002", "000003")
}

// TestMissingTopicDelaysNobody: a topic that cannot be looked up, or is not there, is its own affair.
func TestMissingTopicDelaysNobody(t *testing.T) {
	fake := newFake(t)
	b := open(t, fake.seeds, &kafkabroker.Options{Patience: 5 * time.Minute})
	must(t, b.MakeTopics(t.Context(), 1, "t"))
	must(t, b.Publish(t.Context(), numbered(0, 1)).Wait(t.Context()))
	gate := make(chan struct{})
	var asked atomic.Bool
	fake.ControlKey(int16(kmsg.Metadata), func(r kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		for _, topic := range r.(*kmsg.MetadataRequest).Topics {
			if topic.Topic != nil && *topic.Topic == "gone" {
				asked.Store(true)
				fake.SleepControl(func() { <-gate })
			}
		}
		return nil, nil, false
	})
	missing := b.Publish(t.Context(), []skald.Message{{ID: "m", Topic: "gone", Key: []byte("k")},
		{ID: "i", Topic: "t", Key: []byte("k2")}})
	until(t, "the question", asked.Load)
	must(t, b.Publish(t.Context(), numbered(1, 2)).Wait(t.Context()))
	close(gate)
	var pe *broker.PublishError
	if err := missing.Wait(t.Context()); !errors.As(err, &pe) || len(pe.Refused) != 1 ||
		!errors.Is(pe.Refused[0], broker.ErrNoTopic) || len(pe.Failed) != 0 {
		t.Errorf("got %v", err)
	}
}

// TestHoldsKeepTheContract: brokers fall silent at random, for shorter and longer than a call is waited for,
// while a caller publishes as a relay does: it starts again at the first message that is not durable, when
// all its calls are answered. Nothing is lost and no key is inverted.
func TestHoldsKeepTheContract(t *testing.T) {
	s := newSpread(t, 300*time.Millisecond, 60)
	ctx, end := context.WithCancel(t.Context())
	var nemesis sync.WaitGroup
	silences := make(chan int, 1)
	nemesis.Go(func() {
		rng := rand.New(rand.NewPCG(31, 32))
		for n := 0; ctx.Err() == nil; n++ {
			s.line.deaf.Store(rng.IntN(4) > 0)
			speak := s.line.silence(s.leaders[rng.IntN(len(s.leaders))])
			<-time.After(time.Duration(rng.IntN(500)) * time.Millisecond)
			speak()
			<-time.After(time.Duration(rng.IntN(60)) * time.Millisecond)
			select {
			case <-silences:
			default:
			}
			silences <- n
		}
	})
	const keys = 24
	rng, each := rand.New(rand.NewPCG(33, 34)), 0
	for n := 0; n < 20; {
		var msgs []skald.Message
		for range 40 {
			for k := range keys {
				m := s.to(k%6, fmt.Sprintf("%02d/%04d", k, each))[0]
				m.Key = append(m.Key, byte('a'+k))
				msgs = append(msgs, m)
			}
			each++
		}
		carry(t, s.b, msgs, rng)
		select {
		case n = <-silences:
		default:
		}
	}
	end()
	nemesis.Wait()
	sub, err := s.b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{"t"}})
	must(t, err)
	seen, next := 0, make([]int, keys)
	until(t, "all", func() bool {
		got, err := sub.Receive(t.Context(), 1000)
		if errors.Is(err, broker.ErrClosed) {
			t.Fatal(err)
		}
		for _, d := range got.Deliveries {
			var k, n int
			if _, err := fmt.Sscanf(d.ID, "%d/%d", &k, &n); err != nil {
				continue
			}
			switch {
			case n == next[k]:
				next[k]++
				seen++
			case n > next[k]:
				t.Fatalf("%s came before number %d", d.ID, next[k])
			}
		}
		return seen == keys*each
	})
}

// carry publishes msgs in calls of random sizes, some of them at the same time, until all messages are
// durable.
func carry(t *testing.T, b *kafkabroker.Broker, msgs []skald.Message, rng *rand.Rand) {
	t.Helper()
	type piece struct {
		call     broker.Pending
		from, to int
	}
	durable := make([]bool, len(msgs))
	from, deadline := 0, time.Now().Add(5*time.Minute)
	for from < len(msgs) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d are durable", from, len(msgs))
		}
		var under []piece
		for at := from; at < len(msgs) && len(under) < 6; {
			to := min(at+1+rng.IntN(200), len(msgs))
			under = append(under, piece{b.Publish(t.Context(), msgs[at:to]), at, to})
			at = to
		}
		for _, i := range rng.Perm(len(under)) {
			p := under[i]
			err := p.call.Wait(t.Context())
			var pe *broker.PublishError
			part := errors.As(err, &pe)
			for i := p.from; i < p.to; i++ {
				durable[i] = durable[i] || err == nil || part && pe.Failed[i-p.from] == nil &&
					pe.Refused[i-p.from] == nil
			}
		}
		for from < len(msgs) && durable[from] {
			from++
		}
	}
}
