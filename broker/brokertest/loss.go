package brokertest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

// testLossAtEveryStep causes each fault at many steps between the first handshake and the last
// acknowledgement. No message may be lost, or reordered within its key. A message that was acknowledged
// without an error must not be delivered again.
func testLossAtEveryStep(t *testing.T, s *suite) {
	if s.Via == nil {
		t.Skip("the driver makes no connections")
	}
	p := &Proxy{}
	p.Arm(0, Cut)
	s.roundTrip(t, p, "all", false)
	steps, _ := p.Sends()
	if steps == 0 {
		t.Fatal("Harness.Via does not use dial")
	}
	for _, fault := range []Fault{Cut, CutAfter, HalfClose, Delay} {
		met := 0
		for i := range s.Steps {
			step := 1 + i*steps/s.Steps + int(fault)*steps/s.Steps/4 // different steps for each fault
			p.Arm(step, fault)
			if s.roundTrip(t, p, fmt.Sprint(fault, ".", step), true) {
				met++
			}
		}
		if met == 0 {
			t.Errorf("the fault %v never occurred", fault)
		}
	}
}

// roundTrip publishes, receives and acknowledges through p. It retries after failures, as a relay and an
// inbox do. It returns true if the fault occurred.
func (s *suite) roundTrip(t *testing.T, p *Proxy, name string, faulty bool) (fired bool) {
	t.Helper()
	b := s.Via(t, p.Dial)
	defer b.Close()
	deadline := time.Now().Add(patience())
	topic := s.id + "." + name
	again := func(what string, do func() error) {
		t.Helper()
		for err := do(); err != nil; err = do() {
			pause(t, deadline, fmt.Sprintf("%s, with the fault at %s: %v", what, name, err))
		}
	}
	again("make topic", func() error { return b.MakeTopics(t.Context(), 1, topic) })
	var sub broker.Subscription
	again("subscribe", func() (err error) {
		sub, err = b.Subscribe(t.Context(), broker.Group{Name: topic, Topics: []string{topic}})
		return err
	})
	closed := false
	defer func() {
		if !closed {
			_ = sub.Close(t.Context())
		}
	}()
	const n = 6
	for i := range n {
		again("publish", func() error {
			return b.Publish(t.Context(), []skald.Message{message(topic, "k", i)}).Wait(t.Context())
		})
	}
	for next := 0; next < n; pause(t, deadline, fmt.Sprintf("with the fault at %s only %d of %d came",
		name, next, n)) {
		got, err := sub.Receive(t.Context(), 100)
		if err != nil {
			continue
		}
		for _, d := range got.Deliveries {
			switch want := message(topic, "k", next).ID; {
			case d.ID == want:
				next++
			case d.ID > want:
				t.Fatalf("with the fault at %s, %s came before %s", name, d.ID, want)
			}
		}
		_ = sub.Ack(t.Context(), got.Deliveries)
	}
	_, fired = p.Sends()
	if fired == faulty { // otherwise the fault could occur during the check
		closed = s.staysAcknowledged(t, b, sub, topic, n)
	}
	return fired
}

// staysAcknowledged checks that messages that were acknowledged in an owned partition are not delivered to
// the next member of the group.
func (s *suite) staysAcknowledged(t *testing.T, b Broker, sub broker.Subscription, topic string,
	n int) (closed bool) {
	t.Helper()
	publish(t, b, message(topic, "k", n))
	deadline := time.Now().Add(patience())
	for came := false; !came; pause(t, deadline, "the last message does not come") {
		got, err := sub.Receive(t.Context(), 100)
		if err != nil {
			continue
		}
		for _, d := range got.Deliveries {
			came = came || d.ID == message(topic, "k", n).ID
		}
		_ = sub.Ack(t.Context(), got.Deliveries)
	}
	if err := sub.Close(t.Context()); err != nil {
		return true // the broker may not have stored the acknowledgement
	}
	publish(t, b, message(topic, "k", n+1))
	next, err := b.Subscribe(t.Context(), broker.Group{Name: topic, Topics: []string{topic}})
	must(t, "subscribe", err)
	for came := false; !came; pause(t, deadline, "nothing comes to the next member") {
		got, err := next.Receive(t.Context(), 100)
		if err != nil {
			continue
		}
		for _, d := range got.Deliveries {
			if came = d.ID == message(topic, "k", n+1).ID; !came {
				t.Fatalf("%s came again, though it was acknowledged", d.ID)
			}
		}
	}
	must(t, "close", next.Close(t.Context()))
	return true
}

// testSlowConsumer checks a member that does not receive. It must not block other members, must not prefetch
// more than configured, and must later receive all messages in order.
func testSlowConsumer(t *testing.T, s *suite) {
	b := s.open(t)
	if s.Frugal != nil {
		b = s.Frugal(t)
		t.Cleanup(func() { b.Close() })
	}
	topic := s.topic(t, b, "t", 1, "slow", "quick")
	slow, quick := s.join(t, b, "slow", topic), s.join(t, b, "quick", topic)
	slow.owns(t, 1)
	const n = 600
	pad := strings.Repeat("x", 2000)
	var msgs []skald.Message
	for i := range n {
		m := message(topic, "k", i)
		m.Data = []byte(pad)
		msgs = append(msgs, m)
	}
	for at := 0; at < n; at += 200 {
		publish(t, b, msgs[at:at+200]...)
	}
	for _, m := range []*member{quick, slow} {
		if m == slow && s.Unacknowledged != nil {
			for deadline := time.Now().Add(patience()); s.Unacknowledged(m.Subscription) < Holds; {
				pause(t, deadline, "a member prefetches nothing")
			}
			if held := s.Unacknowledged(m.Subscription); held > 2*Holds {
				t.Errorf("a member that does not receive holds %d messages, at most %d are allowed",
					held, 2*Holds)
			}
		}
		for i, d := range s.takeAcked(t, m, n) {
			if want := message(topic, "k", i).ID; d.ID != want || len(d.Data) != len(pad) {
				t.Fatalf("got %s, want %s", d.ID, want)
			}
		}
	}
}

// takeAcked receives n messages. It acknowledges them, because some brokers limit unacknowledged messages.
func (s *suite) takeAcked(t *testing.T, m *member, n int) (out []broker.Delivery) {
	t.Helper()
	m.receiveUntil(t, fmt.Sprintf("%d messages", n), func(ds []broker.Delivery) bool {
		m.ack(t, ds...)
		out = append(out, ds...)
		return len(out) >= n
	})
	return out
}

// testCloseUnderLoad checks that Close ends all calls in progress soon.
func testCloseUnderLoad(t *testing.T, s *suite) {
	b, other := s.open(t), s.open(t)
	topic := s.topic(t, b, "t", 2, "g")
	m := s.join(t, b, "g", topic)
	durable := make([]bool, 400)
	var wg sync.WaitGroup
	begun := make(chan struct{}, len(durable))
	for i := range durable {
		wg.Go(func() {
			call := b.Publish(t.Context(), []skald.Message{message(topic, fmt.Sprint("k", i), 0)})
			begun <- struct{}{}
			durable[i] = call.Wait(t.Context()) == nil
		})
		if i == len(durable)/2 {
			<-begun
			wg.Go(func() { _ = b.Close() })
		}
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(patience()):
		t.Fatal("calls on a closed broker are not answered")
	}
	if _, err := m.Receive(t.Context(), 1); err == nil {
		t.Error("received from a closed broker")
	}
	var want []string
	for i, yes := range durable {
		if yes {
			want = append(want, message(topic, fmt.Sprint("k", i), 0).ID)
		}
	}
	seen := map[string]bool{}
	s.join(t, other, "g", topic).receiveUntil(t, "what was acknowledged", func(ds []broker.Delivery) bool {
		for _, d := range ds {
			seen[d.ID] = true
		}
		for _, id := range want {
			if !seen[id] {
				return false
			}
		}
		return true
	})
}

// testHundredTopics publishes to a hundred topics with one call, and reads them with one group.
func testHundredTopics(t *testing.T, s *suite) {
	b := s.open(t)
	const n = 100
	var names []string
	var msgs []skald.Message
	for i := range n {
		names = append(names, fmt.Sprintf("%s.t%02d", s.id, i))
		msgs = append(msgs, message(names[i], "k", 0), message(names[i], "k", 1))
	}
	must(t, "make topics", b.MakeTopics(t.Context(), 1, names...))
	m := s.join(t, b, "g", names...)
	m.owns(t, n)
	publish(t, b, msgs...)
	next := map[string]int{}
	for _, d := range m.take(t, 2*n) {
		if want := message(d.Topic, "k", next[d.Topic]).ID; d.ID != want {
			t.Errorf("topic %s: got %s, want %s", d.Topic, d.ID, want)
		}
		next[d.Topic]++
	}
	if len(next) != n {
		t.Errorf("messages of %d topics came", len(next))
	}
}

// testEncodedNames checks that names that drivers must encode belong to separate topics.
func testEncodedNames(t *testing.T, s *suite) {
	b := s.open(t)
	short := s.id[max(0, len(s.id)-40):]
	names := []string{short + ".a.b", short + ".a-b", short + ".a.B", short + "..a", short + ".a.",
		"_" + short + "-", short + strings.Repeat("l", 200-len(short))}
	must(t, "make topics", b.MakeTopics(t.Context(), 1, names...))
	for _, name := range names {
		s.begin(t, b, "g", name)
	}
	for i, name := range names {
		publish(t, b, message(name, "k", i))
	}
	for i, name := range names {
		m := s.join(t, b, "g", name)
		if got := m.take(t, 1)[0]; got.Topic != name || got.ID != message(name, "k", i).ID {
			t.Errorf("by %q came %s of %q", name, got.ID, got.Topic)
		}
		m.close(t)
	}
}

// testAnyByte checks that data and keys may contain any byte.
func testAnyByte(t *testing.T, s *suite) {
	b := s.open(t)
	topic := s.topic(t, b, "bytes", 1, "g")
	all := make([]byte, 256)
	var want []skald.Message
	for i := range all {
		all[i] = byte(i)
		m := message(topic, "k", i)
		m.Data, m.Key = []byte{byte(i)}, []byte{byte(i)}
		want = append(want, m)
	}
	m := message(topic, "k", 256)
	m.Data, m.Key, m.Headers = all, all, []skald.Header{{Name: "all", Value: all}}
	want = append(want, m)
	publish(t, b, want...)
	sameAll(t, s.join(t, b, "g", topic).take(t, len(want)), want)
}

// testHeaders checks that headers keep their order, with all kinds of valid names and values, and with
// repeated names.
func testHeaders(t *testing.T, s *suite) {
	b := s.open(t)
	topic := s.topic(t, b, "headers", 1, "g")
	var hs []skald.Header
	for _, name := range []string{"z", "A", "a", "Content-Type", "content-encoding", "two words", " edge ",
		"colon:", "quote\"", "per%20cent", "new\nline",
		"schlüssel", "名", "_", "x-death", "CC", "Nats-Expected-Stream", "Nats-Msg-Id", "kafka_offset",
		"cloudEvents:other", "cloudEvents_other", "traceparent", "Host",
		strings.Repeat("n", 120), "A"} {
		for _, value := range []string{"", "plain", " edge ", "ü", "a\r\nb: c", "\x00\xff"} {
			hs = append(hs, skald.Header{Name: name, Value: []byte(value)})
		}
	}
	m := message(topic, "k", 0)
	m.Headers = hs
	reversed := message(topic, "k", 1)
	for i := range hs {
		reversed.Headers = append(reversed.Headers, hs[len(hs)-1-i])
	}
	want := []skald.Message{m, reversed}
	publish(t, b, want...)
	sameAll(t, s.join(t, b, "g", topic).take(t, len(want)), want)
}
