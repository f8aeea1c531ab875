package brokertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

func testMissingTopic(t *testing.T, s *suite) {
	b := s.open(t)
	there := s.topic(t, b, "there", 2, "b")
	missing := s.id + ".missing"
	mixed := []skald.Message{message(there, "k", 0), message(missing, "k", 0), message(there, "k", 1)}
	for range 2 {
		pe := asPublishError(t, b.Publish(t.Context(), mixed).Wait(t.Context()))
		if len(pe.Refused) != 1 || len(pe.Failed) != 0 || !errors.Is(pe.Refused[1], broker.ErrNoTopic) ||
			!errors.Is(pe, broker.ErrNoTopic) {
			t.Fatalf("got %v: %v and %v", pe, pe.Refused, pe.Failed)
		}
	}
	must(t, "make topic", b.MakeTopics(t.Context(), 1, missing))
	s.begin(t, b, "a", missing)
	publish(t, b, mixed[1])
	s.join(t, b, "a", missing).take(t, 1)
	s.join(t, b, "b", there).take(t, 4)
}

func testMakeTopics(t *testing.T, s *suite) {
	b := s.open(t)
	old, fresh := s.topic(t, b, "old", 3, "g"), s.id+".fresh"
	publish(t, b, message(old, "k", 0))
	must(t, "make topics again", b.MakeTopics(t.Context(), 5, old, fresh))
	m := s.join(t, b, "g", old)
	m.take(t, 1)
	if len(m.partitions) != 3 {
		t.Errorf("the topic that existed has %d partitions, want 3", len(m.partitions))
	}
	s.join(t, b, "h", fresh).owns(t, 5)
	if err := b.MakeTopics(t.Context(), 1, "no/such name"); err == nil {
		t.Error("created a topic with an illegal name")
	}
}

func testCheckTopics(t *testing.T, s *suite) {
	b := s.open(t)
	there, missing := s.topic(t, b, "there", 1), s.id+".missing"
	got, err := b.CheckTopics(t.Context(), there, missing)
	must(t, "check topics", err)
	if len(got) != 1 || !strings.Contains(got[0], missing+`"`) {
		t.Errorf("missing is %q", got)
	}
	must(t, "make topics", b.MakeTopics(t.Context(), 1, there, missing))
	if got, err = b.CheckTopics(t.Context(), there, missing); err != nil || len(got) > 0 {
		t.Errorf("missing is %q: %v", got, err)
	}
}

// testKept checks that Keeps returns the configured retention, and omits topics that do not exist.
func testKept(t *testing.T, s *suite) {
	b := s.open(t)
	const days = 30 * 24 * time.Hour
	there, missing := s.topic(t, b, "there", 1), s.id+".missing"
	if _, err := b.Keeps(t.Context(), there); errors.Is(err, broker.ErrUnsupported) {
		t.Skip("the driver does not support Keeps")
	}
	s.Keep(t, there, days)
	for deadline := time.Now().Add(patience()); ; { // the broker may return the old value at first
		got, err := b.Keeps(t.Context(), there, missing)
		must(t, "keeps", err)
		if d, some := got[missing]; some || len(got) != 1 {
			t.Fatalf("a missing topic has the retention %v: %v", d, got)
		}
		if got[there] >= days && got[there] < 2*days {
			return
		}
		pause(t, deadline, fmt.Sprintf("the retention is 30 days, Keeps returns %v", got[there]))
	}
}

// testMadeConcurrently creates the same topics at the same time from several clients, as starting instances
// do.
func testMadeConcurrently(t *testing.T, s *suite) {
	const clients = 8
	first, second := s.id+".first", s.id+".second"
	errs := make(chan error, clients)
	for range clients {
		b := s.open(t)
		go func() { errs <- b.MakeTopics(t.Context(), 3, first, second) }()
	}
	for range clients {
		must(t, "make topics", <-errs)
	}
	b := s.open(t)
	for _, topic := range []string{first, second} {
		m := s.join(t, b, "g", topic)
		m.owns(t, 3)
		publish(t, b, message(topic, "k", 0))
		m.take(t, 1)
	}
}

func testSubscribeToMissing(t *testing.T, s *suite) {
	b := s.open(t)
	there := s.topic(t, b, "there", 1)
	_, err := b.Subscribe(t.Context(), broker.Group{Name: s.id + ".g",
		Topics: []string{there, s.id + ".missing"}})
	if !errors.Is(err, broker.ErrNoTopic) {
		t.Fatalf("got %v, want one that wraps ErrNoTopic", err)
	}
	var refused *broker.TopicError
	if !errors.As(err, &refused) || refused.Topic != s.id+".missing" {
		t.Fatalf("got %v, want a TopicError of %s", err, s.id+".missing")
	}
	for _, g := range []broker.Group{{Name: "", Topics: []string{there}}, {Name: s.id + ".g"}} {
		if _, err := b.Subscribe(t.Context(), g); err == nil {
			t.Errorf("subscribed with %+v", g)
		}
	}
}

func testOrder(t *testing.T, s *suite) {
	b := s.open(t)
	topic := s.topic(t, b, "order", 4, "g")
	var msgs []skald.Message
	for n := range 50 {
		for k := range 20 {
			msgs = append(msgs, message(topic, fmt.Sprint("k", k), n))
		}
	}
	publish(t, b, msgs...)
	partitions, next := map[string]string{}, map[string]int{}
	for _, d := range s.join(t, b, "g", topic).take(t, len(msgs)) {
		key := string(d.Key)
		if partition := partitions[key]; partition != "" && partition != d.Partition {
			t.Fatalf("key %s came by %s and %s", key, partition, d.Partition)
		}
		partitions[key] = d.Partition
		if want := message(topic, key, next[key]).ID; d.ID != want {
			t.Fatalf("got %s, want %s", d.ID, want)
		}
		next[key]++
	}
	used := map[string]bool{}
	for _, l := range partitions {
		used[l] = true
	}
	if len(used) < 2 {
		t.Errorf("20 keys use %d of 4 partitions", len(used))
	}
}

func testPipelined(t *testing.T, s *suite) {
	b := s.open(t)
	topic := s.topic(t, b, "pipelined", 2, "g")
	var calls []broker.Pending
	const n = 200
	for i := range n {
		calls = append(calls, b.Publish(t.Context(), numbered(topic, "k", i*5, i*5+5)))
	}
	for i, call := range calls {
		select {
		case <-call.Done():
		case <-time.After(patience()):
			t.Fatalf("call %d is not done", i)
		}
	}
	for i := range calls { // in reverse order, which must make no difference
		must(t, "publish", calls[n-1-i].Wait(t.Context()))
		must(t, "publish, asked again", calls[n-1-i].Wait(t.Context()))
	}
	for i, d := range s.join(t, b, "g", topic).take(t, n*5) {
		if want := message(topic, "k", i).ID; d.ID != want {
			t.Fatalf("got %s, want %s", d.ID, want)
		}
	}
}

func testWithoutKey(t *testing.T, s *suite) {
	b := s.open(t)
	topic := s.topic(t, b, "keyless", 4)
	used := map[string]bool{}
	m := s.join(t, b, "g", topic)
	for i := range 64 {
		publish(t, b, message(topic, "", i)) // a driver may send one call to one partition
	}
	for _, d := range m.take(t, 64) {
		if d.Key != nil {
			t.Fatalf("message %s has key %q", d.ID, d.Key)
		}
		used[d.Partition] = true
	}
	if len(used) < 2 {
		t.Errorf("64 messages without a key use %d of 4 partitions", len(used))
	}
}

func testIncarnation(t *testing.T, s *suite) {
	one, err := s.open(t).Incarnation(t.Context())
	must(t, "incarnation", err)
	two, err := s.open(t).Incarnation(t.Context())
	must(t, "incarnation", err)
	if one == "" || one != two {
		t.Fatalf("two clients of one broker see %q and %q", one, two)
	}
}

func testClose(t *testing.T, s *suite) {
	b, other := s.open(t), s.open(t)
	topic := s.topic(t, b, "t", 1)
	m := s.join(t, b, "g", topic)
	publish(t, b, numbered(topic, "k", 0, 3)...)
	m.take(t, 3)
	must(t, "close the broker", b.Close())
	err := b.Publish(t.Context(), numbered(topic, "k", 3, 4)).Wait(t.Context())
	var pe *broker.PublishError
	if err == nil || errors.As(err, &pe) {
		t.Errorf("publish on a closed broker: %v, want an outage", err)
	}
	if _, err := m.Receive(t.Context(), 1); err == nil {
		t.Error("received from a closed broker")
	}
	if _, err := b.Subscribe(t.Context(),
		broker.Group{Name: s.id + ".g", Topics: []string{topic}}); err == nil {
		t.Error("subscribed on a closed broker")
	}
	must(t, "close it again", b.Close())
	publish(t, other, message(topic, "k", 3))
	s.join(t, other, "g", topic).take(t, 4)
}

func testEndedContext(t *testing.T, s *suite) {
	b := s.open(t)
	topic := s.topic(t, b, "t", 1, "g")
	ended, end := context.WithCancel(t.Context())
	end()
	if err := b.Publish(ended, numbered(topic, "k", 0, 1)).Wait(t.Context()); err == nil {
		t.Error("published although the context had ended")
	}
	publish(t, b, message(topic, "k", 1))
	if got := s.join(t, b, "g", topic).take(t, 1); got[0].ID != message(topic, "k", 1).ID {
		t.Errorf("got %s", got[0].ID)
	}
}

// testCapabilities checks that the driver's Capabilities match its behaviour in the suite.
func testCapabilities(t *testing.T, s *suite) {
	if s.Capabilities == nil {
		t.Skip("the driver declares none")
	}
	is := s.Capabilities()
	b := s.open(t)
	_, err := b.CheckTopics(t.Context())
	checks := !errors.Is(err, broker.ErrUnsupported)
	_, err = b.Keeps(t.Context())
	keeps := !errors.Is(err, broker.ErrUnsupported)
	if is.Counts != s.Counts || is.Rewinds == s.Forward || is.Checks != checks || is.Keeps != keeps {
		t.Errorf("it declares %+v; counts: %v, checks: %v, keeps: %v, cannot rewind: %v", is,
			s.Counts, checks, keeps, s.Forward)
	}
	for _, word := range []string{is.Partition, is.Position, is.Incarnation, is.LateGroup, is.Acks} {
		if word == "" {
			t.Errorf("a word is missing in %+v", is)
		}
	}
}
