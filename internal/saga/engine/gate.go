// This file lets a saga that may end its process run alone: whatever else the process has in hand waits.

package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// asideWait is how long a saga stays away that is to run alone, while another one does.
	asideWait = 50 * time.Millisecond
	// restFor is how long others go on, where waiting for them was in vain.
	restFor = 4 * patience

	patience = time.Second // how long others are kept from beginning, for one that is to run alone
	inVain   = time.Minute // it was in vain for so long: it does not run alone then
)

// A seat is what a gate knows of a saga in hand.
type seat struct {
	LeaseEnd atomic.Int64 // when the saga's lease ends, in nanoseconds by this process
	Alone    bool         // it runs alone, or waits until it may. Of the saga's goroutine
}

// A crashGate keeps what may end the process from whatever else the process has in hand.
type crashGate struct {
	now  func() time.Time
	over chan struct{} // a turn is

	mu    sync.Mutex
	solo  *seat               // runs alone, or waits until it may
	since time.Time           // when that began
	rest  time.Time           // nothing else is to run alone before
	tried time.Time           // since when one has waited in vain
	turns map[*seat]time.Time // sagas at a turn, and when their functions are to be over
}

// newCrashGate is a gate that nobody has passed.
func newCrashGate(now func() time.Time) *crashGate {
	return &crashGate{now: now, turns: map[*seat]time.Time{}, over: make(chan struct{}, 1)}
}

// Sit has s be the one that runs alone. Above 0: another one is, or was, for so long. Tireless:
// by Step, which has no clock to rest by after another one.
func (g *crashGate) Sit(s *seat, tireless bool) (after time.Duration) {
	now := g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.taken(s, now):
		return asideWait
	case now.Before(g.rest) && !tireless:
		return g.rest.Sub(now)
	case g.solo != s:
		g.solo, g.since, s.Alone = s, now, true
	}
	return 0
}

// taken tells whether another saga than s is to run alone. One whose lease is over, and whose function should
// be, hangs: nobody waits for it.
func (g *crashGate) taken(s *seat, now time.Time) bool {
	return g.solo != nil && g.solo != s &&
		(now.UnixNano() < g.solo.LeaseEnd.Load() || now.Before(g.turns[g.solo]))
}

// Taken tells whether a saga in hand is to run alone. Meanwhile nothing is claimed, and nothing else begun.
func (g *crashGate) Taken() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.taken(nil, g.now())
}

// Enter begins a turn of s whose function is to be over in d. Leave ends it. False: another saga is to run
// alone.
func (g *crashGate) Enter(s *seat, d time.Duration) bool {
	now := g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.taken(s, now) {
		return false
	}
	g.turns[s] = now.Add(d)
	return true
}

// Quiet waits until no other saga than s is at a turn. False: one is for long, and others are not kept
// waiting for that. Where there was such a one for a minute, s runs beside it in the end, lest it never does.
func (g *crashGate) Quiet(ctx context.Context, s *seat, stop <-chan struct{}) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for g.busy(s) {
		select {
		case <-g.over:
			continue
		case <-timer.C:
		case <-ctx.Done():
		case <-stop:
		}
		return g.waited(g.now())
	}
	g.mu.Lock()
	g.tried = time.Time{}
	g.mu.Unlock()
	return true
}

// busy tells whether another saga than s is at a turn. One whose function should be over hangs, and does not
// count.
func (g *crashGate) busy(s *seat) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	for other, until := range g.turns {
		if other != s && now.Before(until) {
			return true
		}
	}
	return false
}

// waited notes that one has waited in vain. True: that goes on for too long.
func (g *crashGate) waited(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tried.IsZero() {
		g.tried = now
	}
	if now.Sub(g.tried) > inVain {
		g.tried = time.Time{}
		return true
	}
	g.rest = now.Add(restFor)
	return false
}

// Expect has the turn of s be over in d.
func (g *crashGate) Expect(s *seat, d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turns[s] = g.now().Add(d)
}

// Leave ends the turn of s.
func (g *crashGate) Leave(s *seat) {
	g.mu.Lock()
	delete(g.turns, s)
	g.mu.Unlock()
	select {
	case g.over <- struct{}{}:
	default:
	}
}

// Rise lets others run again, if s was to run alone: for as long as it did, at least. True: it was.
func (g *crashGate) Rise(s *seat) bool {
	if !s.Alone {
		return false
	}
	s.Alone = false
	now := g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.solo == s {
		g.solo = nil
		if rest := now.Add(now.Sub(g.since)); rest.After(g.rest) {
			g.rest = rest
		}
	}
	return true
}
