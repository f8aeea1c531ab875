package circuit_test

import (
	"testing"
	"time"

	"github.com/skald-go/skald/internal/circuit"
)

func enter(t *testing.T, b *circuit.Breaker, now time.Time, ok bool, wait time.Duration) {
	t.Helper()
	if got, w := b.Enter(now); got != ok || w != wait {
		t.Fatalf("a call is let in: %v, in %v; want %v, in %v", got, w, ok, wait)
	}
}

func TestLimit(t *testing.T) {
	b, now := &circuit.Breaker{Limit: 2, Trip: 3, Rest: time.Minute}, time.Unix(0, 0)
	enter(t, b, now, true, 0)
	enter(t, b, now, true, 0)
	enter(t, b, now, false, 0)
	b.Leave(false, now)
	enter(t, b, now, true, 0)
	b.Abandon()
	enter(t, b, now, true, 0)
}

func TestOpensAndTriesOne(t *testing.T) {
	b, now := &circuit.Breaker{Limit: 9, Trip: 2, Rest: time.Minute}, time.Unix(0, 0)
	fail := func(opened bool) {
		t.Helper()
		enter(t, b, now, true, 0)
		if b.Leave(true, now) != opened {
			t.Fatalf("opened: %v", !opened)
		}
	}
	fail(false)
	enter(t, b, now, true, 0)
	b.Leave(false, now) // the row is broken
	fail(false)
	fail(true)
	enter(t, b, now, false, time.Minute)
	now = now.Add(time.Minute)
	enter(t, b, now, true, 0)
	enter(t, b, now, false, time.Minute) // one tries
	b.Abandon()                          // and says nothing
	fail(false)                          // the next one does
	enter(t, b, now.Add(time.Second), false, 59*time.Second)
	now = now.Add(time.Minute)
	enter(t, b, now, true, 0)
	b.Leave(false, now)
	enter(t, b, now, true, 0)
	enter(t, b, now, true, 0)
}
