package brokertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

func testCompete(t *testing.T, s *suite) {
	b, b2 := s.open(t), s.open(t)
	topic := s.topic(t, b, "t", 4)
	one, two := s.join(t, b, "share", topic), s.join(t, b2, "share", topic)
	other := s.join(t, b2, "other", topic)
	settle(t, []*member{one, two}, 2, 2)
	const n = 200
	for i := range n {
		publish(t, b, message(topic, fmt.Sprint("k", i%16), i))
	}
	seen := map[string]int{}
	deadline := time.Now().Add(patience())
	for len(seen) < n {
		for _, m := range []*member{one, two} {
			ds := m.receive(t, 7)
			for _, d := range ds {
				seen[d.ID]++
			}
			m.ack(t, ds...)
		}
		pause(t, deadline, "not all came")
	}
	for id, times := range seen {
		if times != 1 {
			t.Errorf("%s came %d times to one group", id, times)
		}
	}
	other.take(t, n)
}

func testLateGroup(t *testing.T, s *suite) {
	b := s.open(t)
	topic := s.topic(t, b, "t", 2, "early")
	publish(t, b, numbered(topic, "k", 0, 20)...)
	early := s.join(t, b, "early", topic)
	early.ack(t, early.take(t, 20)...)
	early.close(t)
	late := s.join(t, b, "late", topic)
	if s.Forward { // the group starts here, and receives all later messages
		late.close(t)
		publish(t, b, numbered(topic, "k", 20, 40)...)
		if got := s.join(t, b, "late", topic).take(t, 20); got[0].ID != message(topic, "k", 20).ID {
			t.Errorf("a late group starts at %s", got[0].ID)
		}
		return
	}
	if got := late.take(t, 20); got[0].ID != message(topic, "k", 0).ID {
		t.Errorf("a late group starts at %s", got[0].ID)
	}
}

func testManyTopics(t *testing.T, s *suite) {
	b := s.open(t)
	x, y := s.topic(t, b, "x", 2), s.topic(t, b, "y", 3)
	m := s.join(t, b, "g", x, y)
	m.owns(t, 5)
	publish(t, b, message(x, "k", 0), message(y, "k", 0), message(x, "k", 1))
	topics := map[string]int{}
	for _, d := range m.take(t, 3) {
		topics[d.Topic]++
	}
	if topics[x] != 2 || topics[y] != 1 {
		t.Errorf("got %v", topics)
	}
}

// testReady checks that Ready has a value for each message: it waits for Ready before it receives.
func testReady(t *testing.T, s *suite) {
	b := s.open(t)
	topic := s.topic(t, b, "t", 1)
	m := s.join(t, b, "g", topic)
	m.owns(t, 1)
	for i := range 20 {
		select {
		case <-m.Ready(): // a value for messages that were already received
		default:
		}
		publish(t, b, message(topic, "k", i))
		for got := 0; got == 0; got = len(m.receive(t, 10)) {
			select {
			case <-m.Ready():
			case <-time.After(patience()):
				t.Fatalf("message %d was published, and Ready has no value", i)
			}
		}
	}
}

// testRebalance checks the order of messages while members join and leave. All members receive in one
// goroutine, so the order of receiving is that of the whole group.
func testRebalance(t *testing.T, s *suite) {
	b := s.open(t)
	topic := s.topic(t, b, "t", 6)
	const keys = 12
	per := s.Messages / keys
	rng := rand.New(rand.NewPCG(1, 2))
	seen := newOrder(t)
	members := []*member{s.join(t, b, "g", topic)}
	sent := 0
	for deadline, before := time.Now().Add(patience()), 0; seen.distinct < keys*per; {
		if sent < per {
			var one []skald.Message
			for k := range keys {
				one = append(one, message(topic, fmt.Sprint("k", k), sent))
			}
			publish(t, b, one...)
			sent++
		}
		if seen.distinct > before {
			deadline, before = time.Now().Add(patience()), seen.distinct
		}
		switch churn := rng.IntN(40); {
		case sent >= per:
		case churn == 0 && len(members) < 4:
			members = append(members, s.join(t, b, "g", topic))
		case churn == 1 && len(members) > 1:
			at := rng.IntN(len(members))
			members[at].close(t)
			members = slices.Delete(members, at, at+1)
		}
		for _, m := range members {
			ds := m.receive(t, 1+rng.IntN(30))
			seen.took(ds)
			if n := len(ds); n > 0 { // sometimes acknowledges only a part
				m.ack(t, ds[:1+rng.IntN(n)]...)
				if rng.IntN(3) > 0 {
					m.ack(t, ds...)
				}
			}
		}
		if sent >= per {
			pause(t, deadline, fmt.Sprintf("%d of %d came", seen.distinct, keys*per))
		}
	}
}

// order checks first deliveries. Those of each key must arrive in the order of their numbers, without a gap.
type order struct {
	t        *testing.T
	next     map[string]int
	distinct int
}

func newOrder(t *testing.T) *order { return &order{t: t, next: map[string]int{}} }

func (o *order) took(ds []broker.Delivery) {
	o.t.Helper()
	for _, d := range ds {
		key := string(d.Key)
		switch n := o.next[key]; {
		case d.ID == message("", key, n).ID:
			o.next[key]++
			o.distinct++
		case d.ID > message("", key, n).ID:
			o.t.Fatalf("%s came before %s", d.ID, message("", key, n).ID)
		}
	}
}

func testHandOver(t *testing.T, s *suite) {
	b := s.lasting(t)
	topic := s.topic(t, b, "t", 4)
	for _, named := range []string{"", "stable"} {
		group := "g" + named
		one := s.joinAs(t, b, group, named, topic)
		one.owns(t, 4)
		two := s.join(t, b, group, topic)
		settle(t, []*member{one, two}, 2, 2)
		one.close(t)
		two.owns(t, 4)
		if slices.ContainsFunc(one.lost, func(l broker.Partition) bool { return !l.Clean }) {
			t.Errorf("partitions were lost uncleanly: %v", one.lost)
		}
		if _, err := one.Receive(t.Context(), 1); err == nil {
			t.Error("received from a closed subscription")
		}
		two.close(t)
	}
}

func testKill(t *testing.T, s *suite) {
	if s.Kill == nil {
		t.Skip("members of this broker cannot be killed")
	}
	b := s.open(t)
	topic := s.topic(t, b, "t", 2, "g")
	publish(t, b, append(numbered(topic, "a", 0, 10), numbered(topic, "b", 0, 10)...)...)
	dead := s.joinAs(t, b, "g", "dead", topic)
	dead.take(t, 20)
	s.Kill(t, dead.Subscription)
	heir := s.joinAs(t, b, "g", "heir", topic)
	seen := newOrder(t)
	for _, d := range heir.take(t, 20) {
		seen.took([]broker.Delivery{d})
		if s.Counts != (d.Attempt > 0) {
			t.Errorf("%s has attempt %d", d.ID, d.Attempt)
		}
	}
	if seen.distinct != 20 {
		t.Errorf("%d of 20 came again", seen.distinct)
	}
}

func testNewSession(t *testing.T, s *suite) {
	b, b2 := s.lasting(t), s.lasting(t)
	topic := s.topic(t, b, "t", 2, "g")
	publish(t, b, numbered(topic, "k", 0, 10)...)
	old := s.joinAs(t, b, "g", "me", topic)
	old.ack(t, old.take(t, 10)[:4]...)
	if s.Kill != nil {
		s.Kill(t, old.Subscription)
	}
	again := s.joinAs(t, b2, "g", "me", topic)
	again.owns(t, 2)
	publish(t, b, message(topic, "k", 10))
	again.receiveUntil(t, "the last message", func(ds []broker.Delivery) bool {
		return slices.ContainsFunc(ds,
			func(d broker.Delivery) bool { return d.ID == message(topic, "k", 10).ID })
	})
}
