package engine

import (
	"context"
	"time"

	"github.com/skald-go/skald/store"
)

// asideWait is how long a saga stays away that is to run alone, while another one does.
const asideWait = 50 * time.Millisecond

// crashed tells whether something is next that ended its process at least n times.
func (l *live[TTx]) crashed(n int) bool {
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
func (e *Engine[TTx]) setAside(ctx context.Context, ls []*live[TTx]) []*live[TTx] {
	var now, away []*live[TTx]
	for _, l := range ls {
		if l.suspect && l.crashed(1) {
			if err := l.accuse(ctx); err != nil {
				continue // it is claimed again when its lease is over
			}
		}
		switch {
		case l.crashed(2) && !e.sits(l):
			away = append(away, l)
		default:
			now = append(now, l)
		}
	}
	if len(away) > 0 {
		e.putAway(ctx, away)
	}
	return now
}

// putAway gives sagas back for a moment. Those for which that fails are claimed again when their lease is
// over.
func (e *Engine[TTx]) putAway(ctx context.Context, ls []*live[TTx]) {
	es, moves := make([]store.Effect, 0, len(ls)), make([]store.SagaMove, 0, len(ls))
	kept := ls[:0]
	for _, l := range ls {
		m, err := l.move(0)
		if err != nil {
			continue
		}
		m.Release, m.Wake, m.Lease = true, asideWait, 0
		kept, moves, es = append(kept, l), append(moves, m), append(es, store.Effect{Saga: &m})
	}
	stood, err := e.db.Apply(ctx, es...)
	for i, l := range kept {
		if err == nil && stood[i] {
			l.wrote(moves[i])
		}
	}
}

// stepAside gives the saga back for a moment, for the one that runs alone.
func (l *live[TTx]) stepAside(ctx context.Context) error {
	m, err := l.move(0)
	if err != nil {
		return err
	}
	m.Release, m.Wake, m.Lease = true, asideWait, 0
	return l.put(ctx, m)
}

// sits has l be the one that runs alone. False: another one is.
func (e *Engine[TTx]) sits(l *live[TTx]) bool {
	if e.seated(nil) {
		return false
	}
	e.solo.Store(l)
	l.alone = true
	return true
}

// seated tells whether a saga in hand is to run alone, and is not l. Meanwhile nothing is claimed, and
// nothing else begun.
func (e *Engine[TTx]) seated(l *live[TTx]) bool {
	is := e.solo.Load()
	return is != nil && is != l && e.o.Now().UnixNano() < is.leaseEnd.Load()
}

// rise lets others run again, if l was to run alone.
func (l *live[TTx]) rise() {
	if l.alone {
		l.alone = false
		l.e.solo.CompareAndSwap(l, nil)
		l.e.kick()
	}
}
