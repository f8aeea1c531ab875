package brokertest

import (
	"errors"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

// testFull checks that a full topic fails only its own messages, until it has room again. These messages are
// not refused, and the failure is not an outage.
func testFull(t *testing.T, s *suite) {
	if s.Fill == nil {
		t.Skip("no topic of this broker is ever full")
	}
	b := s.open(t)
	full, free := s.topic(t, b, "full", 1, "g"), s.topic(t, b, "free", 1, "g")
	drain := s.Fill(t, full)
	var pe *broker.PublishError
	room := 0
	for ; room < 1000; room++ { // some brokers accept a few more than their limit
		err := b.Publish(t.Context(), numbered(full, "room", room, room+1)).Wait(t.Context())
		if errors.As(err, &pe) {
			break
		}
		must(t, "publish to a topic that has room", err)
	}
	for i := range 3 {
		msgs := []skald.Message{message(full, "k", 2*i), message(free, "k", i), message(full, "l", i),
			message(full, "k", 2*i+1)}
		pe := asPublishError(t, b.Publish(t.Context(), msgs).Wait(t.Context()))
		if len(pe.Refused) > 0 || len(pe.Failed) != 3 || pe.Failed[1] != nil {
			t.Fatalf("messages 0, 2 and 3 went to a full topic, 1 to another: failed %v, refused %v", pe.Failed, pe.Refused)
		}
	}
	drain()
	m, got := s.join(t, b, "g", full, free), map[string]int{}
	ds := m.take(t, room+3)
	m.ack(t, ds...)
	deadline := time.Now().Add(patience())
	for ok := false; !ok; { // the broker applies the change with a delay
		err := b.Publish(t.Context(), numbered(full, "after", 0, 1)).Wait(t.Context())
		if ok = err == nil; !ok && !errors.As(err, &pe) {
			t.Fatalf("publish to a topic that has room again: %v", err)
		}
		pause(t, deadline, "the topic stays full")
	}
	for _, d := range append(ds, m.take(t, 1)...) {
		got[d.Topic]++
	}
	if got[free] != 3 {
		t.Errorf("%d messages of the other topic came, want 3", got[free])
	}
	m.close(t)
}
