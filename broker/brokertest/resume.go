package brokertest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-go/skald/broker"
)

// resumer implements Group.Resume.
type resumer struct {
	mu    sync.Mutex
	at    map[string]int64
	fails int
	asked []broker.Partition
}

func (r *resumer) ask(_ context.Context, partitions []broker.Partition) (broker.Resumed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fails > 0 {
		r.fails--
		return broker.Resumed{}, errors.New("the database is away")
	}
	r.asked = append(r.asked, partitions...)
	return broker.Resumed{Known: len(r.at) > 0, Checkpoints: r.at}, nil
}

func (s *suite) resume(t *testing.T, b Broker, r *resumer, group, topic string) *member {
	t.Helper()
	sub, err := b.Subscribe(t.Context(), broker.Group{Name: s.id + "." + group, Topics: []string{topic},
		Resume: r.ask})
	must(t, "subscribe", err)
	return &member{Subscription: sub, partitions: map[string]bool{}, last: map[string]int64{}}
}

// testResume checks that messages after the checkpoint are delivered again although the broker has their
// acknowledgements, even if Resume fails at first. A checkpoint after the acknowledged position has no
// effect. Gained partitions must have the origin that Resume was called with.
func testResume(t *testing.T, s *suite) {
	if s.Forward {
		t.Skip("this broker cannot be rewound")
	}
	b := s.lasting(t)
	topic := s.topic(t, b, "t", 1)
	publish(t, b, numbered(topic, "k", 0, 10)...)
	one := s.join(t, b, "g", topic)
	ds := one.take(t, 10)
	one.ack(t, ds...)
	one.close(t)
	r := &resumer{at: map[string]int64{ds[0].Partition: ds[4].Position}, fails: 1}
	two := s.resume(t, b, r, "g", topic)
	got := two.takeRetrying(t, 6)
	if got[0].ID != ds[4].ID || got[5].ID != ds[9].ID {
		t.Errorf("the checkpoint is at %s, got %v", ds[4].ID, ids(got))
	}
	two.ack(t, got[:3]...)
	two.close(t)
	if len(r.asked) == 0 || r.asked[0].Name != ds[0].Partition || r.asked[0].Origin == "" {
		t.Errorf("asked about %+v", r.asked)
	}
	r.at[ds[0].Partition] = ds[9].Position
	three := s.resume(t, b, r, "g", topic)
	if got := three.take(t, 3); got[0].ID != ds[7].ID {
		t.Errorf("unacknowledged messages were skipped: %v", ids(got))
	}
	three.close(t)
}

// testStart checks that a gained partition reports its first position, even if it is empty.
func testStart(t *testing.T, s *suite) {
	if s.Forward {
		t.Skip("this broker cannot be rewound")
	}
	b := s.lasting(t)
	topic := s.topic(t, b, "t", 1)
	r := &resumer{}
	begins := func(what string) (m *member, at int64) {
		t.Helper()
		m = s.resume(t, b, r, "g", topic)
		deadline := time.Now().Add(patience())
		for {
			got, err := m.Receive(t.Context(), 0)
			if err == nil && len(got.Gained) == 1 {
				if !got.Gained[0].Started {
					t.Errorf("%s: the partition does not report where it begins", what)
				}
				m.partitions[got.Gained[0].Name] = true
				return m, got.Gained[0].Start
			}
			pause(t, deadline, "no partition was gained")
		}
	}
	one, empty := begins("an empty partition")
	publish(t, b, numbered(topic, "k", 0, 10)...)
	ds := one.take(t, 10)
	if empty > ds[0].Position {
		t.Errorf("an empty partition began at %d, its first message is at %d", empty, ds[0].Position)
	}
	one.ack(t, ds[:6]...)
	one.close(t)
	r.at = map[string]int64{ds[0].Partition: ds[6].Position}
	two, later := begins("a partition with acknowledged messages")
	if later <= ds[5].Position || later > ds[6].Position {
		t.Errorf("it begins at %d; %d is acknowledged, %d is not", later, ds[5].Position, ds[6].Position)
	}
	two.close(t)
	r.at = map[string]int64{ds[0].Partition: ds[2].Position}
	three, lower := begins("a partition that is wanted from earlier on")
	if lower <= ds[1].Position || lower > ds[2].Position {
		t.Errorf("it begins at %d; the checkpoint is at %d", lower, ds[2].Position)
	}
	three.close(t)
}

// takeRetrying works like take. It retries Receive if the first calls fail.
func (m *member) takeRetrying(t *testing.T, n int) (out []broker.Delivery) {
	t.Helper()
	for deadline := time.Now().Add(patience()); len(out) < n; pause(t, deadline,
		"the messages did not come") {
		b, err := m.Receive(t.Context(), n-len(out))
		if err != nil {
			continue
		}
		out = append(out, b.Deliveries...)
		for _, l := range b.Gained {
			m.partitions[l.Name] = true
		}
	}
	return out
}

// testOrigin checks that the partitions of a recreated topic have another origin.
func testOrigin(t *testing.T, s *suite) {
	if s.Forward || s.Drop == nil {
		t.Skip("this broker cannot rewind, or cannot remove topics")
	}
	b := s.lasting(t)
	topic := s.topic(t, b, "t", 1)
	origins := func() string {
		r := &resumer{}
		m := s.resume(t, b, r, "g", topic)
		m.owns(t, 1)
		m.close(t)
		return r.asked[0].Origin
	}
	first := origins()
	if again := origins(); again != first {
		t.Errorf("the origin of one topic is %q, then %q", first, again)
	}
	s.Drop(t, topic)
	deadline := time.Now().Add(patience())
	for {
		err := b.MakeTopics(t.Context(), 1, topic)
		if err == nil {
			break
		}
		pause(t, deadline, "the topic cannot be recreated: "+err.Error())
	}
	if now := origins(); now == first || now == "" {
		t.Errorf("the recreated topic has the old origin %q", now)
	}
}

// testFind checks positions that Find returns for times.
func testFind(t *testing.T, s *suite) {
	b := s.lasting(t)
	topic := s.topic(t, b, "t", 1)
	if _, err := b.Find(t.Context(), topic, time.Now()); errors.Is(err, broker.ErrUnsupported) {
		t.Skip("the driver does not support Find")
	}
	old, late := message(topic, "k", 0), message(topic, "k", 1)
	old.Time = time.Now().Add(-time.Hour)
	publish(t, b, old)
	deadline := time.Now().Add(patience())
	mark := time.Now()
	for time.Since(mark) < 5*time.Millisecond { // Kafka's clock has milliseconds
		pause(t, deadline, "the clock does not advance")
	}
	mark = time.Now()
	late.Time = mark.Add(time.Second)
	publish(t, b, late)
	ds := s.join(t, b, "g", topic).take(t, 2)
	for _, want := range []struct {
		at  time.Time
		pos int64
	}{{mark.Add(-2 * time.Hour), ds[0].Position}, {mark.Add(time.Hour), ds[1].Position + 1}} {
		places, err := b.Find(t.Context(), topic, want.at)
		must(t, "find", err)
		if len(places) != 1 || places[0].Position != want.pos ||
			!strings.HasPrefix(places[0].Partition.Name, topic) || places[0].Partition.Origin == "" {
			t.Errorf("at %v: %+v, want position %d", want.at, places, want.pos)
		}
	}
}
