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

// move returns the write of the new state. The write extends the lease to at least the duration lease.
func (l *live[TTx]) move(lease time.Duration) (store.SagaUpdate, error) {
	m, mine, err := l.Move(l.e.session)
	if err == nil && mine && !m.Final && l.leaseLeft() < max(lease, l.e.o.Lease/2) {
		m.Lease = max(lease, l.e.o.Lease)
	}
	return m, err
}

// noteStored records that m is stored, and performs the actions that depend on this.
func (l *live[TTx]) noteStored(m store.SagaUpdate) {
	if m.Lease > 0 {
		l.leased(m.Lease)
	}
	if l.unseen {
		l.e.commits.Observed()
	}
	l.unseen, l.over = false, m.Release || m.Final
	was, notices := l.Wrote(&m)
	for _, next := range append(l.share.between, l.State) { // measures each step of a shared transaction
		l.e.tally.Moved(l.Row, was, next)
		was = next
	}
	l.share = shared{}
	l.e.notify(l.Row, l.State, notices)
	for _, f := range l.then {
		f()
	}
	l.then = nil
}

// write stores the new state, in a commit shared with other sagas.
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

func (l *live[TTx]) put(ctx context.Context, m store.SagaUpdate) error {
	l.rollback(ctx)
	if l.Related() {
		return l.putRelated(ctx, m)
	}
	stored, err := l.e.write(ctx, l.Effect(&m))
	switch {
	case err != nil:
		return err
	case !stored:
		return errMoved
	}
	l.noteStored(m)
	return nil
}

// write stores a move, in a commit shared with other sagas.
func (e *Engine[TTx]) write(ctx context.Context, m store.Effect) (stored bool, err error) {
	if e.straight {
		return e.moves.Alone(ctx, m)
	}
	return e.moves.Write(ctx, m)
}

// settleDown stores the state and releases the saga until its next due time.
func (l *live[TTx]) settleDown(ctx context.Context) error {
	l.Rest()
	m, err := l.move(0)
	if err != nil {
		return err
	}
	return l.put(ctx, l.GivenBack(m))
}

// drop releases a saga without a change to its state.
func (l *live[TTx]) drop(ctx context.Context) {
	m := store.SagaUpdate{SagaRef: sagarow.Ref(l.Row), State: l.Row.State, SagaStatus: l.Row.SagaStatus,
		Release: true}
	if sagarow.WasLeft(m.SagaStatus) { // another build left the saga, but this build can run it
		m.SagaStatus = sagarow.NextStatus(m.SagaStatus, l.State, l.e.clock.Now())
	}
	_, _ = l.e.write(ctx, store.Effect{Saga: &m}) // after an error, the lease just ends
}

// begin opens a transaction. It returns errMoved if the saga no longer has the version that was read. If the
// last commit has begun a transaction, begin returns that one.
func (l *live[TTx]) begin(ctx context.Context, handle time.Duration) (store.Unit[TTx], error) {
	if u := l.unit; u != nil {
		l.unit = nil
		return l.checkVersion(ctx, u)
	}
	if err := l.slot(ctx); err != nil {
		return nil, err
	}
	u, err := l.e.db.Begin(ctx, l.intake(handle))
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	return l.checkVersion(ctx, u)
}

func (l *live[TTx]) intake(handle time.Duration) store.Intake {
	return store.Intake{Sagas: []store.SagaRef{sagarow.Ref(l.Row)}, Handle: handle}
}

func (l *live[TTx]) checkVersion(ctx context.Context, u store.Unit[TTx]) (store.Unit[TTx], error) {
	if found := u.Found().Sagas; len(found) == 1 && found[0] {
		return u, nil
	}
	_, _ = u.Rollback(ctx)
	return nil, errMoved
}

// rollback ends a transaction that the last commit began and no function used.
func (l *live[TTx]) rollback(ctx context.Context) {
	if l.unit != nil {
		_, _ = l.unit.Rollback(ctx)
		l.unit = nil
	}
	l.releaseWorker()
}

// inTx reports whether an action runs a function in a transaction.
func (l *live[TTx]) inTx(a plan.Action) bool {
	step, ok := l.Def.Step(a.Step)
	return ok && step.InTx() && a.Verb != plan.DecideStep && !l.isReadyRequest(a)
}

// errCrowded means that the saga waited for a worker for most of its lease, so it must be released. If the
// lease ended instead, the next claim would count a crash of this process.
var errCrowded = errors.New("every worker is busy")

// slot waits for a worker. A worker allows one open transaction. The saga keeps the worker if a commit begins
// the next transaction.
func (l *live[TTx]) slot(ctx context.Context) error {
	if l.slotAtOnce() {
		return nil
	}
	l.e.ready.Add(1)
	defer l.e.ready.Add(-1)
	timer := time.NewTimer(l.leaseLeft() - l.e.o.Lease/3)
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

// crowded releases the saga because every worker is busy.
func (l *live[TTx]) crowded(ctx context.Context) {
	l.rollback(ctx)
	l.drop(ctx)
	l.e.mu.Lock()
	due := l.e.crowdedLog.Due(time.Now())
	l.e.mu.Unlock()
	if due {
		l.e.o.Logger.WarnContext(ctx,
			"saga: every worker is busy, so sagas are released before their lease ends: "+
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

// releaseWorker releases the worker, unless a transaction is open.
func (l *live[TTx]) releaseWorker() {
	if l.unit == nil {
		l.unslot()
	}
}

func (l *live[TTx]) unslot() {
	if l.slotted.CompareAndSwap(true, false) {
		<-l.e.slots
	}
}
