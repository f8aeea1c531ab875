// This file makes one attempt at a message. It guards suspects, begins the transaction, decides, runs the
// handler, and commits or parks the message.

package exec

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/lending"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/store"
)

// hintEvery is the pause after the hint reports that another process handles the message.
const hintEvery = 50 * time.Millisecond

// Work handles a job and returns a result for each message. If its commit began the transaction of the next
// job, Work also returns that job.
func (d *Worker[TTx]) Work(ctx context.Context,
	job []*partition.Entry) (rs []Result, next []*partition.Entry) {
	d.at, d.next = nil, nil
	if len(job) == 1 { // the commit of a batch begins no other transaction
		d.at = job[0]
	}
	rs = d.x.Work(ctx, job)
	return rs, d.next
}

// Work handles a job and returns a result for each message. If the hint reports that another process has a
// message, that message waits in its partition, for at most Config.Wait. After that only the database
// decides.
func (x *Executor[TTx]) Work(ctx context.Context, job []*partition.Entry) []Result {
	if len(job) > 1 {
		return x.workBatch(ctx, job)
	}
	e := job[0]
	if x.asksHint(ctx, e) {
		key := x.Seal(e, "").Key
		if !x.o.Ahead.Claim(ctx, key) && time.Duration(e.Hints)*hintEvery < x.o.Wait {
			e.Hints++
			return []Result{{Entry: e, What: decide.Again, Untouched: true, After: hintEvery,
				Err: store.ErrBusy}}
		}
		defer x.o.Ahead.Release(key)
	}
	return []Result{x.attempt(ctx, e)}
}

// asksHint reports whether to ask the hint about e before the intake.
func (x *Executor[TTx]) asksHint(ctx context.Context, e *partition.Entry) bool {
	if x.o.Ahead == nil || e.Parked != nil || e.Suspect || e.Alone || !e.Readable() || !x.HasKey() {
		return false
	}
	w := x.workerOf(ctx, e)
	return w == nil || w.unit == nil // else its transaction is open already
}

// collisions is the maximum number of immediate retries after collisions with other transactions. One more
// collision counts as an outage.
const collisions = 8

// attempt makes an attempt at e in a trace span. It retries immediately after a collision.
func (x *Executor[TTx]) attempt(ctx context.Context, e *partition.Entry) Result {
	ctx, span := x.o.Telemetry.Process(ctx, &e.Message, e.Again+1)
	begun := time.Now()
	e.RetriesNow, e.Begun = 0, begun
	most := collisions
	if e.Troubled() { // after a collision it waits for a later attempt
		most = 0
	}
	r := x.attemptOnce(ctx, e)
	for n := 1; n <= most && r.What == decide.Outage && store.Collided(r.Err); n++ {
		if !backoff.Sleep(ctx, backoff.After(n, time.Millisecond, 50*time.Millisecond)) {
			break
		}
		r = x.attemptOnce(ctx, e)
	}
	r.Took = time.Since(begun)
	telemetry.End(span, r.What.String(), r.Err)
	return r
}

// attemptOnce makes an attempt at the message e without a retry. It also makes the outside call of e, or the
// call that its handler plans. After a panic e fails.
func (x *Executor[TTx]) attemptOnce(ctx context.Context, e *partition.Entry) (r Result) {
	defer func() {
		if v := recover(); v != nil {
			r = x.fail(ctx, e, x.db.Apply, panicError(e, v))
		}
	}()
	if e.Call != nil {
		return x.call(ctx, e, true)
	}
	r = x.take(ctx, e)
	if r.What == decide.Calling {
		own := r.Entry
		r = x.call(ctx, own, false)
		r.Entry, r.Kept, e.Settled = e, true, own.Settled
	}
	return r
}

// panicError returns the error of e after a panic with v in Skald's own code. The message fails, and the
// process continues.
func panicError(e *partition.Entry, v any) error {
	return fmt.Errorf("handle %s: %w", e.TypeAndName(),
		failure.Legible(&failure.PanicError{Value: v, Stack: debug.Stack()}))
}

// take makes one attempt at e, without its outside call. If the ending is Handled, Duplicate or Rejected, the
// database has the mark of e. If it is Queued, Later, Failed or Dead, the database has the message. After any
// other ending the message may be attempted again.
func (x *Executor[TTx]) take(ctx context.Context, e *partition.Entry) Result {
	// Guard suspects.
	if err := e.Unreadable(); err != nil {
		return x.withoutIntake(ctx, e, err)
	}
	if e.Suspect || e.Alone {
		if r, over := x.guardSuspect(ctx, e); over {
			return r
		}
	}

	// Begin the transaction, unless the commit of the previous message began it.
	ctx, cancel := context.WithTimeoutCause(ctx, x.o.Handle+x.o.Wait, failure.ErrTimeout)
	defer cancel()
	intake, unit := x.takeBegun(ctx, e)
	var err error
	if unit == nil {
		if intake, err = x.intake(ctx, e); err != nil {
			return x.withoutIntake(ctx, e, fmt.Errorf("step, entities and settings of %s: %w", e.Name(), err))
		}
		begun := time.Now()
		unit, err = x.begin(ctx, intake)
		x.o.Telemetry.TookIn(e.Topic, time.Since(begun))
	}
	if r, is := x.waitForEntity(ctx, e, err); is {
		return r
	}
	if err != nil {
		return x.intakeFailed(ctx, e, fmt.Errorf("take in %s: %w", e.Name(), err))
	}
	return x.carryOut(ctx, e, unit, intake)
}

// mostRetriesNow is the maximum number of immediate retries after skald.RetryNow.
const mostRetriesNow = 16

// carryOut decides about e after the intake, runs its handler, and commits or parks e.
func (x *Executor[TTx]) carryOut(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	intake store.Intake) (r Result) {
	defer func() {
		if v := recover(); v != nil {
			r = x.handlerFailed(ctx, e, unit, panicError(e, v))
		}
	}()

	if !e.Suspect && !e.Alone && !e.Troubled() && e.Again == 0 { // only first attempts run commit hooks
		ctx = lending.Watch(ctx)
	}

	// Decide.
	d, err := x.decideAfterIntake(ctx, e, unit, intake.Marks[0].Fingerprint)
	switch {
	case err != nil:
		return x.handlerFailed(ctx, e, unit, err)
	case d.Do == decide.Undo:
		ctx = withUndoneStep(ctx, e)
	case d.Do != decide.Handle:
		return x.withoutHandler(ctx, e, unit, intake, d)
	}

	// Run the handler, unless the user's table has the message.
	known, err := x.askLegacyDedup(ctx, e, unit.Tx())
	switch {
	case err != nil:
		return x.handlerFailed(ctx, e, unit, err)
	case known:
		return x.finishKnown(ctx, e, unit, intake)
	}
	reply, err := x.run(withVersions(ctx, intake.Locks, unit.Found().Locks), e, unit)

	// Commit or park.
	a := answerOf(err, e.RetriesNow < mostRetriesNow && ctx.Err() == nil)
	switch d := x.table.AfterHandler(a.fact | x.stepFacts(e)); d.Do {
	case decide.Commit:
		return x.finish(ctx, e, unit, intake, reply)
	case decide.RetryNow:
		e.RetriesNow++
		if _, back := unit.Rollback(ctx); errors.Is(back, store.ErrLent) {
			return x.fail(ctx, e, x.db.Apply, endedByHandler(e, back))
		}
		return x.take(ctx, e) // within the same time limit
	case decide.StoreCall:
		return x.intend(ctx, e, unit, intake, a.call, d)
	case decide.Reject:
		return x.reject(ctx, e, unit, intake, a.rejected, reply)
	case decide.Wait:
		return x.parkFor(ctx, e, unit.Rollback, a.retryAfter.After, err)
	}
	return x.handlerFailed(ctx, e, unit, fmt.Errorf("handle %s: %w", e.TypeAndName(), err))
}

// withoutHandler carries out a decision that needs no handler.
func (x *Executor[TTx]) withoutHandler(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	intake store.Intake, d decide.Decision) Result {
	print := intake.Marks[0].Fingerprint
	switch d.Do {
	case decide.CommitWithoutHandler:
		return x.finishBare(ctx, e, unit, intake, d)
	case decide.StoreCallAgain:
		return x.intendAgain(ctx, e, unit, intake)
	case decide.Wait:
		return x.waitForCall(ctx, e, unit.Rollback, d)
	case decide.ParkForOtherBuild:
		return x.unhandled(ctx, e, unit.Rollback)
	case decide.Queue:
		return x.parkBehind(ctx, e, unit.Rollback)
	case decide.CompareParked:
		return x.alreadyKept(ctx, e, unit, print)
	case decide.Quarantine:
		return x.quarantine(ctx, e, unit, d, print)
	case decide.Repeat:
		return x.repeat(ctx, e, unit, unit.Found().Marks[0])
	case decide.DecideByStep:
		_, _ = unit.Rollback(ctx) // finishedElsewhere repeats the intake for the step alone
		return x.finishedElsewhere(ctx, e, unit.Found().Marks[0], print)
	case decide.DeleteParked:
		_, _ = unit.Rollback(ctx, store.Effect{Finish: x.finishParked(e)}) // otherwise it is claimed again
		return Result{Entry: e, What: d.Ending}
	}
	_, _ = unit.Rollback(ctx)
	r := Result{Entry: e, What: d.Ending}
	switch d.Ending {
	case decide.Full:
		r.Err = ErrFull
	case decide.Broken:
		r.Err = errUndecided
	}
	return r
}
