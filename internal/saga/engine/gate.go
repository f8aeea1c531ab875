// This file lets a saga that may crash the process run alone: the other sagas of the process wait.

package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// asideWait is how long a saga is released that has to wait for another one to run alone.
	asideWait = 50 * time.Millisecond
	// restFor is how long the other sagas go on after they kept a saga from running alone.
	restFor = 4 * patience

	patience = time.Second // how long other sagas wait for one that is to run alone
	inVain   = time.Minute // after so long without success, the saga does not run alone
)

// seat is the state of a saga at the gate.
type seat struct {
	LeaseEnd atomic.Int64 // end of the saga's lease, in nanoseconds by this process's clock
	Alone    bool         // it runs alone, or waits to. Used only by the saga's goroutine
}

// crashGate keeps a saga that may crash the process away from all others in the process.
type crashGate struct {
	now  func() time.Time
	over chan struct{} // signals the end of a turn

	mu    sync.Mutex
	solo  *seat               // runs alone, or waits to
	since time.Time           // when that began
	rest  time.Time           // no saga is to run alone before
	tried time.Time           // when a saga first failed to get the process alone
	turns map[*seat]time.Time // sagas in a turn, and when their functions should have returned
}

// newCrashGate returns an open gate.
func newCrashGate(now func() time.Time) *crashGate {
	return &crashGate{now: now, turns: map[*seat]time.Time{}, over: make(chan struct{}, 1)}
}

// Sit reserves the gate for s, which is to run alone. A result above 0 is the time to wait, because of
// another saga. Tireless ignores the rest after another saga; Step uses it.
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

// taken reports whether another saga than s is to run alone. A saga whose lease and function should be over
// hangs, and does not count.
func (g *crashGate) taken(s *seat, now time.Time) bool {
	return g.solo != nil && g.solo != s &&
		(now.UnixNano() < g.solo.LeaseEnd.Load() || now.Before(g.turns[g.solo]))
}

// Taken reports whether a saga is to run alone. Meanwhile nothing is claimed, and no other saga begins an
// action.
func (g *crashGate) Taken() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.taken(nil, g.now())
}

// Enter begins a turn of s, whose function should return within d. Leave ends it. Returns false if another
// saga is to run alone.
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

// Quiet waits until no other saga than s is in a turn. It returns false if one takes long, so that the
// others do not wait for it. After a minute of such failures it returns true, and s runs next to the other.
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

// busy reports whether another saga than s is in a turn. A saga whose function should have returned hangs,
// and does not count.
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

// waited records a failed wait. Returns true if waits have failed for too long.
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

// Expect sets the time within which the function of s should return.
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

// Rise lets others run again after s ran alone, for at least as long. Returns false if s did not run alone.
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
