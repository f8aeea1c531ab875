package engine

import (
	"context"
	"errors"
	"time"

	"github.com/skald-go/skald/store"
)

// setAside returns those of the claimed sagas that may run immediately. At most one of them has crashed its
// process twice. The reason: if a process ends, each of its leased sagas counts a crash, and three crashes
// make a saga stuck. So only a saga that ran alone can count the third crash.
func (e *Engine[TTx]) setAside(ctx context.Context, ls []*live[TTx]) (runnable []*live[TTx]) {
	var charged, away []*live[TTx]
	for _, l := range ls {
		if l.suspect && l.Crashed(1) && !l.Related() {
			l.countCrash()
			charged = append(charged, l)
		} else {
			runnable = append(runnable, l)
		}
	}
	claimed := append(runnable, e.putAll(ctx, charged, 0)...)
	runnable = claimed[:0]
	wait := asideWait
	for _, l := range claimed {
		if !l.Crashed(2) {
			runnable = append(runnable, l)
		} else if after := e.gate.Reserve(&l.gateState, e.straight); after == 0 {
			runnable = append(runnable, l)
		} else {
			away, wait = append(away, l), max(wait, after)
		}
	}
	e.putAll(ctx, away, wait)
	return runnable
}

// putAll writes the states of sagas in one transaction. If pause is above 0, it releases the sagas for that
// duration. It returns the sagas that are stored. The other sagas are claimed again when their leases end.
func (e *Engine[TTx]) putAll(ctx context.Context, ls []*live[TTx],
	pause time.Duration) (written []*live[TTx]) {
	if len(ls) == 0 {
		return nil
	}
	var es []store.Effect
	var moves []*store.SagaUpdate
	var errs error
	kept := ls[:0]
	for _, l := range ls {
		m, err := l.move(0)
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		if pause > 0 {
			m.Release, m.Wake, m.Lease = true, pause, 0
		}
		kept, moves, es = append(kept, l), append(moves, &m), append(es, store.Effect{Saga: &m})
	}
	stored, err := e.db.Apply(ctx, es...)
	if errs = errors.Join(errs, err); errs != nil {
		e.o.Logger.WarnContext(ctx, "saga: sagas of a process that ended wait for the end of their leases",
			"sagas", len(ls), "error", errs)
	}
	for i, l := range kept {
		if err == nil && stored[i] {
			l.noteStored(*moves[i])
			written = append(written, l)
		}
	}
	return written
}

// stepAside releases the saga for the duration of the pause.
func (l *live[TTx]) stepAside(ctx context.Context, pause time.Duration) error {
	l.Rest()
	m, err := l.move(0)
	if err != nil {
		return err
	}
	if next := l.State.Next(); !next.IsZero() {
		pause = max(0, min(pause, next.Sub(l.e.clock.Now())))
	}
	m.Release, m.Wake, m.Lease = true, pause, 0
	return l.put(ctx, m)
}

// enter begins a turn, which the caller ends with gate.Leave. It returns false if another saga is to run
// alone, or if this saga must run alone and cannot do so yet. In both cases it has released this saga.
func (l *live[TTx]) enter(ctx context.Context) (begins bool, err error) {
	if l.gateState.Alone && !l.Crashed(2) {
		l.freeGate()
	}
	if l.State.Status.Final() || len(l.Family()) > 0 {
		return true, nil // no function runs next
	}
	if l.Crashed(2) { // this saga must run alone
		if after := l.e.gate.Reserve(&l.gateState, l.e.straight); after > 0 {
			return false, l.stepAside(ctx, after)
		}
		if !l.e.straight && !l.e.gate.Quiet(ctx, &l.gateState, l.e.stop) {
			return false, l.stepAside(ctx, restFor)
		}
		l.e.gate.Expect(&l.gateState, usualTimeout+graceTime)
		return true, nil
	}
	if l.e.gate.Enter(&l.gateState, usualTimeout+graceTime) {
		return true, nil
	}
	return false, l.stepAside(ctx, asideWait)
}

// freeGate lets the other sagas run again if l ran alone.
func (l *live[TTx]) freeGate() {
	if l.e.gate.Free(&l.gateState) {
		l.e.kick()
	}
}
