package engine

import (
	"context"
	"errors"
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
	for _, l := range claimed {
		if l.crashed(2) && !e.sits(l) {
			away = append(away, l)
		} else {
			now = append(now, l)
		}
	}
	e.putAll(ctx, away, asideWait)
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
		e.o.Logger.WarnContext(ctx, "saga: sagas of a process that ended wait for the end of their leases", "sagas", len(ls), "error", errs)
	}
	for i, l := range kept {
		if err == nil && stood[i] {
			l.wrote(*moves[i])
			stand = append(stand, l)
		}
	}
	return stand
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
