package brokertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

const limit = 20_000 // bytes, for topics that refuse larger messages

func tooLarge(topic, key string, n int) skald.Message {
	m := message(topic, key, n)
	m.Data = make([]byte, limit*5)
	r := rand.New(rand.NewPCG(uint64(n), 3))
	for i := range m.Data { // random, so that compression does not make it smaller
		m.Data[i] = byte(r.Uint32())
	}
	return m
}

func (s *suite) limited(t *testing.T, b Broker, partitions int) string {
	topic := s.topic(t, b, "limited", partitions, "g", "reader")
	s.Limit(t, topic, limit)
	return topic
}

func testRefused(t *testing.T, s *suite) {
	b := s.open(t)
	topic := s.limited(t, b, 1)
	publish(t, b, message(topic, "k", 0))
	for range 2 {
		pe := asPublishError(t, b.Publish(t.Context(),
			[]skald.Message{tooLarge(topic, "k", 1)}).Wait(t.Context()))
		if len(pe.Refused) != 1 || pe.Refused[0] == nil || len(pe.Failed) != 0 {
			t.Fatalf("alone and too large: %v, refused %v", pe, pe.Refused)
		}
	}
	publish(t, b, message(topic, "k", 1))
	for i, d := range s.join(t, b, "g", topic).take(t, 2) {
		if want := message(topic, "k", i).ID; d.ID != want || len(d.Data) > limit {
			t.Errorf("got %s with %d bytes, want %s", d.ID, len(d.Data), want)
		}
	}
}

// testHeldBack checks that no later message of a key becomes durable until the caller has received the
// refusal. After that, the caller may publish again from the refused message on.
func testHeldBack(t *testing.T, s *suite) {
	b := s.open(t)
	topic := s.limited(t, b, 1)
	first := b.Publish(t.Context(), []skald.Message{message(topic, "k", 0), tooLarge(topic, "k", 1),
		message(topic, "k", 2)})
	var later []broker.Pending
	for i := range 20 {
		if i == 10 { // the call is done, but Wait was not called yet
			<-first.Done()
		}
		later = append(later, b.Publish(t.Context(), numbered(topic, "k", 3+i, 4+i)))
	}
	for i := range later {
		call := later[len(later)-1-i] // reversed, because answers must not depend on Wait of earlier calls
		pe := asPublishError(t, call.Wait(t.Context()))
		if pe.Failed[0] == nil && pe.Refused[0] == nil {
			t.Fatalf("a successor: %v", pe)
		}
	}
	pe := asPublishError(t, first.Wait(t.Context()))
	if pe.Refused[1] == nil || pe.Failed[2] == nil && pe.Refused[2] == nil {
		t.Fatalf("refused %v, failed %v", pe.Refused, pe.Failed)
	}
	if pe.Failed[0] != nil || pe.Refused[0] != nil { // refused together with the next message
		publish(t, b, message(topic, "k", 0))
	}
	publish(t, b, message(topic, "k", 1))
	publish(t, b, message(topic, "k", 2))
	for i, d := range s.join(t, b, "g", topic).take(t, 3) {
		if want := message(topic, "k", i).ID; d.ID != want {
			t.Errorf("got %s, want %s", d.ID, want)
		}
	}
}

func testRefusals(t *testing.T, s *suite) {
	b := s.lasting(t)
	topic := s.topic(t, b, "shrunk", 3, "reader")
	// the driver caches the topic's old limit here
	publish(t, b, message(topic, "warm", 0))
	s.Limit(t, topic, limit)
	rng := rand.New(rand.NewPCG(5, 6))
	msgs, poison := load(topic, s.Messages, func(n int) bool { return rng.IntN(150) == 0 || n == 3 })
	c := &caller{t: t, b: b, rng: rng, msgs: msgs}
	c.publishAll()
	if len(c.outages) > 0 || len(c.setAside) != len(poison) {
		t.Fatalf("set aside %d, of which %d should be; outages: %q", len(c.setAside), len(poison), c.outages)
	}
	s.inOrder(t, b, topic, msgs, c.setAside)
}

func testFailures(t *testing.T, s *suite) {
	if s.Disturb == nil {
		t.Skip("this broker cannot be disturbed")
	}
	b := s.open(t)
	topic := s.limited(t, b, 3)
	publish(t, b, message(topic, "warm", 0))
	rng := rand.New(rand.NewPCG(7, 8))
	msgs, poison := load(topic, s.Messages, func(int) bool { return rng.IntN(500) == 0 })
	stop := s.Disturb(t)
	c := &caller{t: t, b: b, rng: rng, msgs: msgs}
	c.publishAll()
	stop()
	if len(c.setAside) != len(poison) {
		t.Fatalf("set aside %d, of which %d should be", len(c.setAside), len(poison))
	}
	s.inOrder(t, b, topic, msgs, c.setAside)
}

// load returns n messages with a few keys. A message is too large if poison returns true for its index.
func load(topic string, n int, poison func(int) bool) (msgs []skald.Message, bad map[int]bool) {
	bad = map[int]bool{}
	for i := range n {
		key := fmt.Sprint("k", i*i%7)
		if poison(i) {
			bad[i] = true
			msgs = append(msgs, tooLarge(topic, key, i))
		} else {
			msgs = append(msgs, message(topic, key, i))
		}
	}
	return msgs, bad
}

// inOrder reads all messages of topic. It checks that each message arrives unless it was set aside, and that
// the first deliveries of each key are in the order of publishing.
func (s *suite) inOrder(t *testing.T, b Broker, topic string, msgs []skald.Message, setAside map[int]bool) {
	t.Helper()
	missing, last := map[string]bool{}, map[string]string{}
	for i, m := range msgs {
		if !setAside[i] {
			missing[m.ID] = true
		}
	}
	s.join(t, b, "reader", topic).receiveUntil(t, "all messages", func(ds []broker.Delivery) bool {
		for _, d := range ds {
			if key := string(d.Key); missing[d.ID] {
				if d.ID < last[key] {
					t.Fatalf("%s came for the first time behind %s", d.ID, last[key])
				}
				last[key] = d.ID
				delete(missing, d.ID)
			}
		}
		return len(missing) == 0
	})
}

// caller publishes by the contract of broker.Publisher. It makes several calls before it waits. After a
// failure it waits for all calls, and restarts at the first message that is not durable.
type caller struct {
	t        *testing.T
	b        Broker
	rng      *rand.Rand
	msgs     []skald.Message
	setAside map[int]bool
	outages  []error
}

type call struct {
	broker.Pending
	at []int // indexes in msgs
}

func (c *caller) publishAll() {
	c.setAside = map[int]bool{}
	durable := map[int]bool{}
	alone := -1 // index of a message to publish alone, because it was refused with others
	deadline, before := time.Now().Add(patience()), 0
	for next := 0; next < len(c.msgs); {
		if next > before {
			deadline, before = time.Now().Add(patience()), next
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("published %d of %d; outages: %q", next, len(c.msgs), c.outages)
		}
		alone = c.settle(c.send(next, alone), durable)
		for next < len(c.msgs) && (durable[next] || c.setAside[next]) {
			next++
		}
	}
}

// send makes some calls from message first on, or one call with only the message single.
func (c *caller) send(first, single int) (calls []call) {
	if single >= 0 {
		return []call{c.call([]int{single})}
	}
	for range 1 + c.rng.IntN(12) {
		var at []int
		for size := 1 + c.rng.IntN(20); len(at) < size && first < len(c.msgs); first++ {
			if !c.setAside[first] {
				at = append(at, first)
			}
		}
		if len(at) > 0 {
			calls = append(calls, c.call(at))
		}
	}
	return calls
}

func (c *caller) call(at []int) call {
	msgs := make([]skald.Message, len(at))
	for i, n := range at {
		msgs[i] = c.msgs[n]
	}
	return call{c.b.Publish(c.t.Context(), msgs), at}
}

// settle waits for all calls. It returns the index of the message to publish alone: the first refused message
// that has no earlier pending message of its key, or -1.
func (c *caller) settle(calls []call, durable map[int]bool) (alone int) {
	alone = -1
	for _, call := range calls {
		err := call.Wait(c.t.Context())
		var pe *broker.PublishError
		if err != nil && !errors.As(err, &pe) {
			c.outages = append(c.outages, err)
			continue
		}
		for i, n := range call.at {
			switch {
			case pe == nil || pe.Failed[i] == nil && pe.Refused[i] == nil:
				durable[n] = true
			case pe.Refused[i] != nil && len(calls) == 1 && len(call.at) == 1:
				c.setAside[n] = true
			case pe.Refused[i] != nil && alone < 0 && c.isFirst(n, durable):
				alone = n
			}
		}
	}
	return alone
}

func (c *caller) isFirst(n int, durable map[int]bool) bool {
	for i := range n {
		if string(c.msgs[i].Key) == string(c.msgs[n].Key) && !durable[i] && !c.setAside[i] {
			return false
		}
	}
	return true
}
