// Package gate lets a saga that may end its process run alone: whatever else the process has in hand waits.
package gate

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// AsideWait is how long a saga stays away that is to run alone, while another one does.
	AsideWait = 50 * time.Millisecond
	// RestFor is how long others go on, where waiting for them was in vain.
	RestFor = 4 * patience

	patience = time.Second // how long others are kept from beginning, for one that is to run alone
	inVain   = time.Minute // it was in vain for so long: it does not run alone then
)

// A Seat is what a gate knows of a saga in hand.
type Seat struct {
	LeaseEnd atomic.Int64 // when the saga's lease ends, in nanoseconds by this process
	Alone    bool         // it runs alone, or waits until it may. Of the saga's goroutine
}

// A Gate keeps what may end the process from whatever else the process has in hand.
type Gate struct {
	now  func() time.Time
	over chan struct{} // a turn is

	mu    sync.Mutex
	solo  *Seat               // runs alone, or waits until it may
	since time.Time           // when that began
	rest  time.Time           // nothing else is to run alone before
	tried time.Time           // since when one has waited in vain
	turns map[*Seat]time.Time // sagas at a turn, and when their functions are to be over
}

// New is a gate that nobody has passed.
func New(now func() time.Time) *Gate {
	return &Gate{now: now, turns: map[*Seat]time.Time{}, over: make(chan struct{}, 1)}
}

// Sit has s be the one that runs alone. Above 0: another one is, or was, for so long. Tireless:
// by Step, which has no clock to rest by after another one.
func (g *Gate) Sit(s *Seat, tireless bool) (after time.Duration) {
	now := g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.taken(s, now):
		return AsideWait
	case now.Before(g.rest) && !tireless:
		return g.rest.Sub(now)
	case g.solo != s:
		g.solo, g.since, s.Alone = s, now, true
	}
	return 0
}

// taken tells whether another saga than s is to run alone. One whose lease is over, and whose function should
// be, hangs: nobody waits for it.
func (g *Gate) taken(s *Seat, now time.Time) bool {
	return g.solo != nil && g.solo != s &&
		(now.UnixNano() < g.solo.LeaseEnd.Load() || now.Before(g.turns[g.solo]))
}

// Taken tells whether a saga in hand is to run alone. Meanwhile nothing is claimed, and nothing else begun.
func (g *Gate) Taken() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.taken(nil, g.now())
}

// Enter begins a turn of s whose function is to be over in d. Leave ends it. False: another saga is to run
// alone.
func (g *Gate) Enter(s *Seat, d time.Duration) bool {
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
func (g *Gate) Quiet(ctx context.Context, s *Seat, stop <-chan struct{}) bool {
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
func (g *Gate) busy(s *Seat) bool {
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
func (g *Gate) waited(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tried.IsZero() {
		g.tried = now
	}
	if now.Sub(g.tried) > inVain {
		g.tried = time.Time{}
		return true
	}
	g.rest = now.Add(RestFor)
	return false
}

// Expect has the turn of s be over in d.
func (g *Gate) Expect(s *Seat, d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turns[s] = g.now().Add(d)
}

// Leave ends the turn of s.
func (g *Gate) Leave(s *Seat) {
	g.mu.Lock()
	delete(g.turns, s)
	g.mu.Unlock()
	select {
	case g.over <- struct{}{}:
	default:
	}
}

// Rise lets others run again, if s was to run alone: for as long as it did, at least. True: it was.
func (g *Gate) Rise(s *Seat) bool {
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
