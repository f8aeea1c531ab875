package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// asideWait is how long a saga stays away that is to run alone, while another one does.
const asideWait = 50 * time.Millisecond

const (
	patience = time.Second  // how long others are kept from beginning, for one that is to run alone
	restFor  = 4 * patience // how long they go on, where that was in vain
	inVain   = time.Minute  // it was in vain for so long: it does not run alone then
)

// A gate keeps what may end the process from whatever else the process has in hand.
type gate[TTx any] struct {
	mu    sync.Mutex
	solo  *live[TTx]               // runs alone, or waits until it may
	since time.Time                // when that began
	rest  time.Time                // nothing else is to run alone before
	tried time.Time                // since when one has waited in vain
	turns map[*live[TTx]]time.Time // sagas at a turn, and when their functions are to be over
	over  chan struct{}            // a turn is
}

// crashed tells whether something is next that ended its process at least n times.
func (l *live[TTx]) crashed(n int) bool {
	if !slices.ContainsFunc(l.state.Runs, func(r plan.Run) bool { return r.Crashes >= n }) {
		return false
	}
	for _, a := range l.d.Plan.Pending(l.state) {
		if a.Crashes >= n {
			return true
		}
	}
	return false
}

// setAside keeps what may be worked on now, of what was just claimed: one at most that ended its process
// twice. If the process ends, whatever it has leased is charged with that, and is stuck once it was charged
// three times: only what ran alone comes so far.
func (e *Engine[TTx]) setAside(ctx context.Context, ls []*live[TTx]) (now []*live[TTx]) {
	var charged, away []*live[TTx]
	for _, l := range ls {
		if l.suspect && l.crashed(1) && !l.related() {
			l.charge()
			charged = append(charged, l)
		} else {
			now = append(now, l)
		}
	}
	claimed := append(now, e.putAll(ctx, charged, 0)...)
	now = claimed[:0]
	wait := asideWait
	for _, l := range claimed {
		if !l.crashed(2) {
			now = append(now, l)
		} else if after := e.gate.sits(l, e.o.Now()); after == 0 {
			now = append(now, l)
		} else {
			away, wait = append(away, l), max(wait, after)
		}
	}
	e.putAll(ctx, away, wait)
	return now
}

// putAll writes the states of sagas in one transaction, and gives them back for so long; 0: it keeps them. It
// returns those that stand. The others are claimed again, by whoever has them, when their leases are over.
func (e *Engine[TTx]) putAll(ctx context.Context, ls []*live[TTx], away time.Duration) (stand []*live[TTx]) {
	if len(ls) == 0 {
		return nil
	}
	var es []store.Effect
	var moves []*store.SagaMove
	var errs error
	kept := ls[:0]
	for _, l := range ls {
		m, err := l.move(0)
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		if away > 0 {
			m.Release, m.Wake, m.Lease = true, away, 0
		}
		kept, moves, es = append(kept, l), append(moves, &m), append(es, store.Effect{Saga: &m})
	}
	stood, err := e.db.Apply(ctx, es...)
	if errs = errors.Join(errs, err); errs != nil {
		e.o.Logger.WarnContext(ctx, "saga: sagas of a process that ended wait for the end of their leases",
			"sagas", len(ls), "error", errs)
	}
	for i, l := range kept {
		if err == nil && stood[i] {
			l.wrote(*moves[i])
			stand = append(stand, l)
		}
	}
	return stand
}

// stepAside gives the saga back for a moment.
func (l *live[TTx]) stepAside(ctx context.Context, away time.Duration) error {
	m, err := l.move(0)
	if err != nil {
		return err
	}
	if next := l.state.Next(); !next.IsZero() {
		away = max(0, min(away, next.Sub(l.e.clock.Now())))
	}
	m.Release, m.Wake, m.Lease = true, away, 0
	return l.put(ctx, m)
}

// sits has l be the one that runs alone. Above 0: another one is, or was, for so long.
func (g *gate[TTx]) sits(l *live[TTx], now time.Time) (after time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.taken(l, now):
		return asideWait
	case now.Before(g.rest) && !l.e.straight:
		return g.rest.Sub(now)
	case g.solo != l:
		g.solo, g.since, l.alone = l, now, true
	}
	return 0
}

// taken tells whether another saga than l is to run alone. One whose lease is over, and whose function should
// be, hangs: nobody waits for it.
func (g *gate[TTx]) taken(l *live[TTx], now time.Time) bool {
	return g.solo != nil && g.solo != l &&
		(now.UnixNano() < g.solo.leaseEnd.Load() || now.Before(g.turns[g.solo]))
}

// seated tells whether a saga in hand is to run alone. Meanwhile nothing is claimed, and nothing else begun.
func (e *Engine[TTx]) seated() bool {
	e.gate.mu.Lock()
	defer e.gate.mu.Unlock()
	return e.gate.taken(nil, e.o.Now())
}

// enter begins a turn, which leave ends. False: another saga is to run alone, or this one is and cannot yet.
// It was given back.
func (l *live[TTx]) enter(ctx context.Context) (begins bool, err error) {
	g, now := &l.e.gate, l.e.o.Now()
	if l.alone && !l.crashed(2) {
		l.rise()
	}
	if l.state.Status.Final() || len(l.family) > 0 {
		return true, nil // no function is next
	}
	if l.crashed(2) {
		if after := g.sits(l, now); after > 0 {
			return false, l.stepAside(ctx, after)
		}
		return l.enterAlone(ctx)
	}
	g.mu.Lock()
	if begins = !g.taken(l, now); begins {
		g.turns[l] = now.Add(usualTimeout + mercy)
	}
	g.mu.Unlock()
	if begins {
		return true, nil
	}
	return false, l.stepAside(ctx, asideWait)
}

// enterAlone begins a turn that nothing runs beside. That it begins is stored: whose process ends before is
// not charged with that.
func (l *live[TTx]) enterAlone(ctx context.Context) (begins bool, err error) {
	if !l.e.straight && !l.quiet(ctx) {
		return false, l.stepAside(ctx, restFor)
	}
	for _, a := range l.d.Plan.Pending(l.state) {
		if a.Crashes > 1 {
			l.feed(plan.Event{What: plan.Alone, Step: a.Step, Occurrence: a.Occurrence})
		}
	}
	if err := l.write(ctx, 0); err != nil {
		return false, err
	}
	l.e.gate.expect(l, usualTimeout+mercy)
	return true, nil
}

// quiet waits until no other saga is at a turn. False: one is for long, and others are not kept waiting for
// that. Where there was such a one for a minute, the saga runs beside it in the end, lest it never does.
func (l *live[TTx]) quiet(ctx context.Context) bool {
	g := &l.e.gate
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for g.busy(l) {
		select {
		case <-g.over:
			continue
		case <-timer.C:
		case <-ctx.Done():
		case <-l.e.stop:
		}
		return g.waited(l.e.o.Now())
	}
	g.mu.Lock()
	g.tried = time.Time{}
	g.mu.Unlock()
	return true
}

// busy tells whether another saga than l is at a turn. One whose function should be over hangs, and does not
// count.
func (g *gate[TTx]) busy(l *live[TTx]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := l.e.o.Now()
	for other, until := range g.turns {
		if other != l && now.Before(until) {
			return true
		}
	}
	return false
}

// waited notes that one has waited in vain. True: that goes on for too long.
func (g *gate[TTx]) waited(now time.Time) bool {
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

// expect has the turn of l be over in d.
func (g *gate[TTx]) expect(l *live[TTx], d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turns[l] = l.e.o.Now().Add(d)
}

// leave ends a turn.
func (g *gate[TTx]) leave(l *live[TTx]) {
	g.mu.Lock()
	delete(g.turns, l)
	g.mu.Unlock()
	select {
	case g.over <- struct{}{}:
	default:
	}
}

// rise lets others run again, if l was to run alone: for as long as it did, at least.
func (l *live[TTx]) rise() {
	if !l.alone {
		return
	}
	l.alone = false
	g, now := &l.e.gate, l.e.o.Now()
	g.mu.Lock()
	if g.solo == l {
		g.solo, g.rest = nil, later(g.rest, now.Add(now.Sub(g.since)))
	}
	g.mu.Unlock()
	l.e.kick()
}
