package brokertest

import (
	"fmt"
	"testing"
	"time"
)

// testLag checks that any client can count the messages that wait for a group, with or without members.
func testLag(t *testing.T, s *suite) {
	b := s.open(t)
	const waiting = 7
	topic, missing := s.topic(t, b, "lagging", 2, "g"), s.id+".missing"
	until := func(what string, want int64) {
		t.Helper()
		for deadline := time.Now().Add(patience()); ; { // the broker stores acknowledgements a little later
			got, err := b.Lag(t.Context(), s.id+".g", topic, missing)
			must(t, "lag", err)
			if _, some := got[missing]; some {
				t.Fatalf("a missing topic has the lag %v", got)
			}
			if n, known := got[topic]; known && n == want {
				return
			}
			pause(t, deadline, fmt.Sprintf("%s %v wait, want %d", what, got, want))
		}
	}
	m := s.join(t, b, "g", topic)
	for i := range 4 {
		publish(t, b, message(topic, fmt.Sprint(i), i))
	}
	m.ack(t, m.take(t, 4)...)
	until("after all was acknowledged", 0)
	m.close(t)
	for i := range waiting {
		publish(t, b, message(topic, fmt.Sprint(i), i))
	}
	until("while the group has no member", waiting)
	if got, err := b.Lag(t.Context(), s.id+".stranger", topic); err != nil || got[topic] != 0 {
		t.Errorf("an unknown group has the lag %v, %v", got, err)
	}
	m = s.join(t, b, "g", topic)
	m.ack(t, m.take(t, waiting)...)
	m.close(t)
	until("after the rest was acknowledged", 0)
}
