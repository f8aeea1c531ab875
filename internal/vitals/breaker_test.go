package vitals

import (
	"testing"
	"time"
)

func enter(t *testing.T, b *Breaker, now time.Time, ok bool, wait time.Duration) *Pass {
	t.Helper()
	p, w := b.Enter(now)
	if (p != nil) != ok || w != wait {
		t.Fatalf("a call is admitted: %v, in %v; want %v, in %v", p != nil, w, ok, wait)
	}
	return p
}

func TestLimit(t *testing.T) {
	b, now := &Breaker{Limit: 2, Trip: 3, Rest: time.Minute}, time.Unix(0, 0)
	one := enter(t, b, now, true, 0)
	two := enter(t, b, now, true, 0)
	enter(t, b, now, false, 0)
	one.Leave(false, now)
	enter(t, b, now, true, 0)
	two.Abandon()
	enter(t, b, now, true, 0)
}

func TestOpensAndAdmitsOneProbe(t *testing.T) {
	b, now := &Breaker{Limit: 9, Trip: 2, Rest: time.Minute}, time.Unix(0, 0)
	fail := func(opened bool) {
		t.Helper()
		if enter(t, b, now, true, 0).Leave(true, now) != opened {
			t.Fatalf("opened: %v", !opened)
		}
	}
	fail(false)
	enter(t, b, now, true, 0).Leave(false, now) // the row is broken
	fail(false)
	fail(true)
	enter(t, b, now, false, time.Minute)
	now = now.Add(time.Minute)
	one := enter(t, b, now, true, 0)
	enter(t, b, now, false, time.Minute) // one is the probe
	one.Abandon()                        // without a result
	fail(false)                          // the next probe
	enter(t, b, now.Add(time.Second), false, 59*time.Second)
	now = now.Add(time.Minute)
	enter(t, b, now, true, 0).Leave(false, now)
	enter(t, b, now, true, 0)
	enter(t, b, now, true, 0)
}

// TestCallsFromBeforeItOpened ends calls from before the breaker opened during a probe. There is still one
// probe, and the pause stays as long.
func TestCallsFromBeforeItOpened(t *testing.T) {
	for name, end := range map[string]func(p *Pass, now time.Time){
		"abandoned": func(p *Pass, _ time.Time) { p.Abandon() },
		"failed":    func(p *Pass, now time.Time) { p.Leave(true, now) },
	} {
		b, now := &Breaker{Limit: 9, Trip: 1, Rest: time.Minute}, time.Unix(0, 0)
		early, late := enter(t, b, now, true, 0), enter(t, b, now, true, 0)
		if !enter(t, b, now, true, 0).Leave(true, now) {
			t.Fatal("it does not open")
		}
		end(early, now.Add(30*time.Second))
		now = now.Add(time.Minute)
		one := enter(t, b, now, true, 0)
		end(late, now)
		if p, _ := b.Enter(now.Add(2 * time.Minute)); p != nil {
			t.Errorf("%s: a second call is admitted as a probe", name)
		}
		one.Leave(false, now)
		enter(t, b, now, true, 0)
	}
}
