package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// move writes the state as it is to be, and keeps the lease for at least need.
func (l *live[TTx]) move(need time.Duration) (store.SagaMove, error) {
	m, mine, err := l.Move(l.e.session)
	if err == nil && mine && !m.Final && l.left() < max(need, l.e.o.Lease/2) {
		m.Lease = max(need, l.e.o.Lease)
	}
	return m, err
}

// wrote notes that m stands.
func (l *live[TTx]) wrote(m store.SagaMove) {
	if m.Lease > 0 {
		l.leased(m.Lease)
	}
	if l.unseen {
		l.e.commits.Saw()
	}
	l.unseen, l.over = false, m.Release || m.Final
	was, told := l.Wrote(&m)
	for _, next := range append(l.share.between, l.State) { // each step has its own time
		l.e.tally.Moved(l.Row, was, next)
		was = next
	}
	l.share = shared{}
	l.e.tell(l.Row, l.State, told)
	for _, f := range l.then {
		f()
	}
	l.then = nil
}

// write stores the state as it is to be, together with what other sagas store now.
func (l *live[TTx]) write(ctx context.Context, need time.Duration) error {
	if !l.Dirty() {
		return nil
	}
	m, err := l.move(need)
	if err != nil {
		return err
	}
	return l.put(ctx, m)
}

func (l *live[TTx]) put(ctx context.Context, m store.SagaMove) error {
	l.rollback(ctx)
	if l.Related() {
		return l.putRelated(ctx, m)
	}
	stands, err := l.e.write(ctx, l.Effect(&m))
	switch {
	case err != nil:
		return err
	case !stands:
		return errMoved
	}
	l.wrote(m)
	return nil
}

// write has a move stored, in a commit that it shares with others.
func (e *Engine[TTx]) write(ctx context.Context, m store.Effect) (stands bool, err error) {
	if e.straight {
		return e.moves.Alone(ctx, m)
	}
	return e.moves.Write(ctx, m)
}

// settleDown gives the saga back, until it is to be looked at again.
func (l *live[TTx]) settleDown(ctx context.Context) error {
	l.Rest()
	m, err := l.move(0)
	if err != nil {
		return err
	}
	return l.put(ctx, l.GivenBack(m))
}

// drop gives back what nothing was done about.
func (l *live[TTx]) drop(ctx context.Context) {
	m := store.SagaMove{SagaRef: sagarow.Ref(l.Row), State: l.Row.State, Standing: l.Row.Standing,
		Release: true}
	if sagarow.WasLeft(m.Standing) { // this build can
		m.Standing = sagarow.NextStanding(m.Standing, l.State, l.e.clock.Now())
	}
	_, _ = l.e.write(ctx, store.Effect{Saga: &m}) // else it is claimed when the lease is over
}

// begin opens a transaction in which the saga stands as it was read, or takes the one that the last commit
// began.
func (l *live[TTx]) begin(ctx context.Context, handle time.Duration) (store.Unit[TTx], error) {
	if u := l.unit; u != nil {
		l.unit = nil
		return l.standing(ctx, u)
	}
	if err := l.slot(ctx); err != nil {
		return nil, err
	}
	u, err := l.e.db.Begin(ctx, l.intake(handle))
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	return l.standing(ctx, u)
}

func (l *live[TTx]) intake(handle time.Duration) store.Intake {
	return store.Intake{Sagas: []store.SagaRef{sagarow.Ref(l.Row)}, Handle: handle}
}

func (l *live[TTx]) standing(ctx context.Context, u store.Unit[TTx]) (store.Unit[TTx], error) {
	if found := u.Found().Sagas; len(found) == 1 && found[0] {
		return u, nil
	}
	_, _ = u.Rollback(ctx)
	return nil, errMoved
}

// rollback ends a transaction that the last commit began and that is not needed.
func (l *live[TTx]) rollback(ctx context.Context) {
	if l.unit != nil {
		_, _ = l.unit.Rollback(ctx)
		l.unit = nil
	}
	l.free()
}

// inTx tells whether a function in a transaction is asked for.
func (l *live[TTx]) inTx(a plan.Action) bool {
	step, ok := l.Def.Step(a.Step)
	return ok && step.InTx() && a.Verb != plan.DecideStep && !l.asks(a)
}

// errCrowded: the saga has waited for a worker for as long as its lease allows. It is to be given back: if
// the lease ended, whoever claims it would take this process for one that ended.
var errCrowded = errors.New("every worker is busy")

// slot waits for a worker: leave to open a transaction. It is kept with the transaction that a commit has
// begun.
func (l *live[TTx]) slot(ctx context.Context) error {
	if l.slotAtOnce() {
		return nil
	}
	l.e.ready.Add(1)
	defer l.e.ready.Add(-1)
	timer := time.NewTimer(l.left() - l.e.o.Lease/3)
	defer timer.Stop()
	select {
	case l.e.slots <- struct{}{}:
		l.slotted.Store(true)
		return nil
	case <-timer.C:
		return errCrowded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// crowded gives the saga back, since every worker is busy.
func (l *live[TTx]) crowded(ctx context.Context) {
	l.rollback(ctx)
	l.drop(ctx)
	l.e.mu.Lock()
	say := l.e.sayCrowded.Due(time.Now())
	l.e.mu.Unlock()
	if say {
		l.e.o.Logger.WarnContext(ctx,
			"saga: every worker is busy, so sagas are given back before their lease ends: "+
				"raise EngineOptions.Workers, or start another engine", "workers", l.e.o.Workers)
	}
}

func (l *live[TTx]) slotAtOnce() bool {
	if l.slotted.Load() {
		return true
	}
	select {
	case l.e.slots <- struct{}{}:
		l.slotted.Store(true)
		return true
	default:
		return false
	}
}

// free gives the leave back, unless a transaction is open.
func (l *live[TTx]) free() {
	if l.unit == nil {
		l.unslot()
	}
}

func (l *live[TTx]) unslot() {
	if l.slotted.CompareAndSwap(true, false) {
		<-l.e.slots
	}
}
