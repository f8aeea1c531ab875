// This file lets a saga run alone if one of its functions has crashed the process: the other sagas of this
// process wait. A crash then harms only that saga.

package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// asideWait is the time for which other sagas are released while one saga is to run alone.
	asideWait = 50 * time.Millisecond
	// restFor is the time for which the other sagas continue after a saga failed to get the process alone.
	restFor = 4 * patience

	patience     = time.Second // a saga waits so long to get the process alone
	aloneTimeout = time.Minute // after so long without success, the saga runs next to others
)

// gateState is the state of one saga at the gate.
type gateState struct {
	LeaseEnd atomic.Int64 // end of the saga's lease, in nanoseconds by this process's clock
	Alone    bool         // it runs alone, or waits to run alone; used only by the saga's goroutine
}

// crashGate lets one saga at a time run alone in this process. A turn is the time in which a saga runs
// functions.
type crashGate struct {
	now  func() time.Time
	over chan struct{} // signals the end of a turn

	mu    sync.Mutex
	solo  *gateState               // the saga that runs alone, or waits to run alone; or nil
	since time.Time                // time when solo was set
	rest  time.Time                // until then no saga may reserve the gate
	tried time.Time                // time when a saga first failed to get the process alone
	turns map[*gateState]time.Time // sagas in a turn, and the times by which their functions should return
}

// newCrashGate returns a gate through which all sagas may pass.
func newCrashGate(now func() time.Time) *crashGate {
	return &crashGate{now: now, turns: map[*gateState]time.Time{}, over: make(chan struct{}, 1)}
}

// Reserve reserves the gate for s, which then may run alone. If the result wait is above 0, the caller may
// try again after this time: another saga has the gate, or the others are to continue first. If noRest is
// true, Reserve ignores that second reason; Step uses this.
func (g *crashGate) Reserve(s *gateState, noRest bool) (wait time.Duration) {
	now := g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.reservedByOther(s, now):
		return asideWait
	case now.Before(g.rest) && !noRest:
		return g.rest.Sub(now)
	case g.solo != s:
		g.solo, g.since, s.Alone = s, now, true
	}
	return 0
}

// reservedByOther reports whether another saga than s has reserved the gate. The reservation ends if the
// saga hangs: both its lease and the time of its function are over.
func (g *crashGate) reservedByOther(s *gateState, now time.Time) bool {
	return g.solo != nil && g.solo != s &&
		(now.UnixNano() < g.solo.LeaseEnd.Load() || now.Before(g.turns[g.solo]))
}

// Taken reports whether a saga has reserved the gate. Meanwhile the engine claims no sagas, and other sagas
// begin no action.
func (g *crashGate) Taken() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reservedByOther(nil, g.now())
}

// Enter begins a turn of s, whose function should return within d. The caller ends the turn with Leave. Enter
// returns false if another saga has reserved the gate.
func (g *crashGate) Enter(s *gateState, d time.Duration) bool {
	now := g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reservedByOther(s, now) {
		return false
	}
	g.turns[s] = now.Add(d)
	return true
}

// Quiet waits until no other saga than s is in a turn. It returns false after a second, so that the other
// sagas do not wait longer for one long function. After a minute of such failures Quiet returns true, and s
// runs next to that function.
func (g *crashGate) Quiet(ctx context.Context, s *gateState, stop <-chan struct{}) bool {
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

// busy reports whether another saga than s is in a turn. It ignores a saga after the time by which its
// function should return.
func (g *crashGate) busy(s *gateState) bool {
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

// waited records that Quiet failed. It returns true if Quiet has failed for longer than aloneTimeout.
func (g *crashGate) waited(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tried.IsZero() {
		g.tried = now
	}
	if now.Sub(g.tried) > aloneTimeout {
		g.tried = time.Time{}
		return true
	}
	g.rest = now.Add(restFor)
	return false
}

// Expect sets the time d within which the function of s should return.
func (g *crashGate) Expect(s *gateState, d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turns[s] = g.now().Add(d)
}

// Leave ends the turn of s.
func (g *crashGate) Leave(s *gateState) {
	g.mu.Lock()
	delete(g.turns, s)
	g.mu.Unlock()
	select {
	case g.over <- struct{}{}:
	default:
	}
}

// Free opens the gate after s ran alone. The other sagas then run for at least as long as s had the gate.
// Free returns false if s did not run alone.
func (g *crashGate) Free(s *gateState) bool {
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
