package engine

import (
	"context"
	"errors"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/lending"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

var errSlow = errors.New("it took longer than its Timeout")

// errLate is the error of a function that returned after the engine gave it up.
var errLate = errors.New("it returned after the engine had closed its connection")

// graceTime is the time from a function's timeout until the database ends the function's transaction.
const graceTime = 5 * time.Second

// inPlace limits the consecutive transient errors of a function's transaction that are retried without a
// write. A deadlock is usually over by then. After the first stored failure, each further failure is stored
// immediately.
const inPlace = 3

// function runs a step in a transaction, and returns the resulting event.
type function[TTx any] func(ctx context.Context, tx TTx, f *Facts) (plan.Event, error)

// function returns the user's function for an action. It returns nil if the action needs no function in a
// transaction.
func (l *live[TTx]) function(a plan.Action) function[TTx] {
	step, _ := l.Def.Step(a.Step)
	if tx, ok := step.Tx.(*Local[TTx]); ok {
		return l.functionOf(a, tx)
	}
	if _, is := l.outside(a); is { // the action is a request
		return nil
	}
	if tx, ok := OutsideOf[TTx](step.Tx); ok { // a function undoes the call
		return l.functionOf(a, &Local[TTx]{Undo: tx.Local})
	}
	return nil
}

// functionOf returns the Do or Undo of tx, as the action requires.
func (l *live[TTx]) functionOf(a plan.Action, tx *Local[TTx]) function[TTx] {
	return func(ctx context.Context, in TTx, f *Facts) (e plan.Event, err error) {
		if a.Verb == plan.UndoStep {
			run, _ := l.State.Run(a.Step, a.Occurrence)
			return plan.Event{What: plan.UndoDone}, tx.Undo(ctx, in, f, run.Output)
		}
		e.What = plan.Succeeded
		e.Output, err = tx.Do(ctx, in, f)
		return e, err
	}
}

// local runs a function in a transaction, and then the functions of later steps that may share this
// transaction. The commit includes the saga's new state.
func (l *live[TTx]) local(ctx context.Context, a plan.Action, run function[TTx]) error {
	defer l.releaseWorker()
	timeout := l.Timeout(a)
	u, err := l.begin(ctx, timeout+graceTime)
	if err != nil {
		return err
	}
	l.openShared(a, timeout)
	for {
		if ran, err := l.runIn(ctx, u, a, run); !ran {
			return l.afterTransaction(err)
		}
		l.Prepare(ctx)
		next, joins := l.nextToShare(ctx, u)
		if !joins {
			return l.afterTransaction(l.sharedError(l.commit(ctx, u, a)))
		}
		l.share.add(next, l.State)
		a, run = next, l.function(next)
	}
}

// afterTransaction passes on err, the result of a transaction. After a success it counts down the steps that
// must run one by one, because they failed in a shared transaction.
func (l *live[TTx]) afterTransaction(err error) error {
	if err == nil {
		l.share, l.single = shared{}, max(l.single-1, 0)
	}
	return err
}

// runIn runs a function in u, and applies its event in memory. If the function fails, runIn rolls u back and
// returns false. It returns no error then if it has stored the failure.
func (l *live[TTx]) runIn(ctx context.Context, u store.Unit[TTx], a plan.Action,
	run function[TTx]) (ran bool, err error) {
	timeout := l.Timeout(a)
	var e plan.Event
	f := l.Facts(a)
	within, cancel := context.WithTimeoutCause(l.Caused(ctx), timeout, errSlow)
	defer cancel()
	lent := lending.With(within, lending.Loan{Tx: u.Tx(), Consumer: "saga " + l.Row.Name, ID: l.Row.Key})
	err = l.timed(ctx, u, a, timeout, func() (err error) {
		e, err = run(lent, u.Tx(), f)
		return err
	})
	if e.Step, e.Occurrence = a.Step, a.Occurrence; err == nil {
		err = l.FeedData(e)
	}
	if err != nil {
		return false, l.failedIn(within, u, a, err)
	}
	l.share.bytes += len(e.Output)
	return true, nil
}

// failedIn rolls back the transaction u in which the function of a failed. It stores the failure, unless the
// function is to be retried without a write.
func (l *live[TTx]) failedIn(ctx context.Context, u store.Unit[TTx], a plan.Action, err error) error {
	slow := errors.Is(context.Cause(ctx), errSlow)
	passing := u.Outage(ctx, err) && !slow // before any Rollback
	if len(l.share.actions) > 1 {
		return l.split(ctx, u, a, err)
	}
	outside := context.WithoutCancel(ctx)
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return l.rollBackAfter(outside, u, a, err) // the process stops, which is no failure of a
	}
	if passing && l.tryInPlace(a) {
		return l.rollBackAfter(outside, u, a, err)
	}
	if passing {
		err = skald.Outage(err)
	}
	if errors.Is(err, context.DeadlineExceeded) && slow {
		err = errors.Join(errSlow, err)
	}
	l.ApplyError(a, err)
	l.Prepare(outside)
	return l.blame(outside, a, l.storeInstead(outside, u, 0))
}

// tryInPlace reports whether a is retried after a transient failure without a write.
func (l *live[TTx]) tryInPlace(a plan.Action) bool {
	run, _ := l.State.Run(a.Step, a.Occurrence)
	return !l.e.straight && run.Free.Times == 0 && l.outages < inPlace && l.leaseLeft() > l.e.o.Lease/2
}

// storeInstead rolls back the user's writes in u, and stores the new state. It extends the lease to at
// least the duration lease.
func (l *live[TTx]) storeInstead(ctx context.Context, u store.Unit[TTx], lease time.Duration) error {
	if l.Related() {
		if _, err := u.Rollback(ctx); errors.Is(err, store.ErrLent) {
			return err
		}
		return l.write(ctx, lease)
	}
	m, err := l.move(lease)
	if err != nil {
		_, _ = u.Rollback(ctx)
		return err
	}
	stored, err := u.Rollback(ctx, l.Effect(&m))
	switch {
	case err != nil:
		return err
	case !stored[0]:
		return errMoved
	}
	l.noteStored(m)
	return nil
}

// commit commits u with the new state and the user's writes. If another function follows, commit begins that
// function's transaction in the same round trip.
func (l *live[TTx]) commit(ctx context.Context, u store.Unit[TTx], a plan.Action) error {
	l.Prepare(ctx)
	others, err := l.relate(ctx, u.Tx())
	if err != nil {
		if aborted(err) || shut(err) {
			err = l.blameCommit(ctx, a, err)
		}
		return l.rollBackAfter(ctx, u, a, err)
	}
	m, err := l.move(0)
	if err != nil {
		_, _ = u.Rollback(ctx)
		return l.blame(ctx, a, err)
	}
	timeout, follows := l.nextInTx(u)
	done := !follows && len(l.Pending()) == 0
	if done { // the commit releases the lease, too
		m = l.GivenBack(m)
	}
	es := append([]store.Effect{l.Effect(&m)}, others...)
	if !follows {
		if err := u.Commit(ctx, es...); err != nil {
			return l.blameCommit(ctx, a, err)
		}
		l.noteStored(m)
		return nil
	}
	in := l.intake(timeout + graceTime)
	in.Sagas[0].Version++
	next, err := u.CommitThen(ctx, in, es...)
	if err != nil {
		return l.blameCommit(ctx, a, err)
	}
	l.noteStored(m)
	l.unit = next
	return nil
}

// nextInTx reports whether another function in a transaction follows immediately, and returns its timeout.
func (l *live[TTx]) nextInTx(u store.Unit[TTx]) (timeout time.Duration, follows bool) {
	if !u.Found().Follows || l.e.stopping() || l.State.Status.Final() {
		return 0, false
	}
	if todo := l.Next(); len(todo) > 0 && l.inTx(todo[0]) {
		return l.Timeout(todo[0]), true
	}
	return 0, false
}
