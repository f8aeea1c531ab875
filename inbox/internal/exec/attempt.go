// This file is the path of one message through an attempt, from top to bottom: guard suspects, begin and take
// in, decide, run the handler, commit or park.

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

// hintEvery is the pause after a hint that another process has a message in progress.
const hintEvery = 50 * time.Millisecond

// Work does a job and returns a result for each message of it, and the job to do next, which has been begun.
func (d *Worker[TTx]) Work(ctx context.Context,
	job []*partition.Entry) (rs []Result, next []*partition.Entry) {
	d.at, d.next = nil, nil
	if len(job) == 1 { // behind each of several there are others
		d.at = job[0]
	}
	rs = d.x.Work(ctx, job)
	return rs, d.next
}

// Work does a job and returns a result for each message of it. A message that a hint reports in another
// process waits at its place, for no longer than for a rival at the database, which decides.
func (x *Executor[TTx]) Work(ctx context.Context, job []*partition.Entry) []Result {
	if len(job) > 1 {
		return x.share(ctx, job)
	}
	e := job[0]
	if x.hints(ctx, e) {
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

// hints reports whether a hint is asked before e is taken.
func (x *Executor[TTx]) hints(ctx context.Context, e *partition.Entry) bool {
	if x.o.Ahead == nil || e.Parked != nil || e.Suspect || e.Alone || !e.Readable() || !x.HasKey() {
		return false
	}
	w := x.workerOf(ctx, e)
	return w == nil || w.unit == nil // else its transaction is open already
}

// collisions bounds the collisions with rivals' transactions after which a message is taken again at its
// place; after these it is an outage.
const collisions = 8

// attempt attempts e under a span, and again after a collision.
func (x *Executor[TTx]) attempt(ctx context.Context, e *partition.Entry) Result {
	ctx, span := x.o.Telemetry.Process(ctx, &e.Message, e.Again+1)
	begun := time.Now()
	e.Overtaken, e.Begun = 0, begun
	most := collisions
	if e.Troubled() { // by the next attempt rivals are gone
		most = 0
	}
	r := x.once(ctx, e)
	for n := 1; n <= most && r.What == decide.Outage && store.Collided(r.Err); n++ {
		if !backoff.Sleep(ctx, backoff.After(n, time.Millisecond, 50*time.Millisecond)) {
			break
		}
		r = x.once(ctx, e)
	}
	r.Took = time.Since(begun)
	telemetry.End(span, r.What.String(), r.Err)
	return r
}

// once takes e, and makes the outside call that e is at or that its handler intends. A panic is a failure of
// e.
func (x *Executor[TTx]) once(ctx context.Context, e *partition.Entry) (r Result) {
	defer func() {
		if v := recover(); v != nil {
			r = x.failure(ctx, e, x.db.Apply, bug(e, v))
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

// bug is the failure of e where code outside of the user's functions panicked with v: the message fails, and
// the process goes on.
func bug(e *partition.Entry, v any) error {
	return fmt.Errorf("handle %s: %w", e.TypeAndName(),
		failure.Legible(&failure.PanicError{Value: v, Stack: debug.Stack()}))
}

// take does everything for one message, once. After handled, duplicate or rejected the database holds its
// mark; after queued, later, failed or dead it holds the message; after any other ending the message may be
// taken again.
func (x *Executor[TTx]) take(ctx context.Context, e *partition.Entry) Result {
	// Guard suspects.
	if err := e.Unreadable(); err != nil {
		return x.untaken(ctx, e, err)
	}
	if e.Suspect || e.Alone {
		if r, over := x.careful(ctx, e); over {
			return r
		}
	}

	// Begin, and take in, unless the commit of the message before it did.
	ctx, cancel := context.WithTimeoutCause(ctx, x.o.Handle+x.o.Wait, failure.ErrTimeout)
	defer cancel()
	intake, unit := x.begun(ctx, e)
	var err error
	if unit == nil {
		if intake, err = x.intake(ctx, e); err != nil {
			return x.untaken(ctx, e, fmt.Errorf("step, entities and settings of %s: %w", e.Name(), err))
		}
		begun := time.Now()
		unit, err = x.begin(ctx, intake)
		x.o.Telemetry.TookIn(e.Topic, time.Since(begun))
	}
	if r, is := x.inLine(ctx, e, err); is {
		return r
	}
	if err != nil {
		return x.takeFailed(ctx, e, fmt.Errorf("take in %s: %w", e.Name(), err))
	}
	return x.carryOut(ctx, e, unit, intake)
}

// mostOvertaken bounds how often a message is taken again at once after its handler was overtaken.
const mostOvertaken = 16

// carryOut decides about e after its intake, runs its handler, and commits or parks e.
func (x *Executor[TTx]) carryOut(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	intake store.Intake) (r Result) {
	defer func() {
		if v := recover(); v != nil {
			r = x.lentFailed(ctx, e, unit, bug(e, v))
		}
	}()

	if !e.Suspect && !e.Alone && !e.Troubled() && e.Again == 0 { // else it does the least that it can
		ctx = lending.Watch(ctx)
	}

	// Decide.
	d, err := x.decided(ctx, e, unit, intake.Marks[0].Fingerprint)
	switch {
	case err != nil:
		return x.lentFailed(ctx, e, unit, err)
	case d.Do == decide.Undo:
		ctx = undoing(ctx, e)
	case d.Do != decide.Handle:
		return x.unrun(ctx, e, unit, intake, d)
	}

	// Run the handler, unless a table of the user's has the message.
	known, err := x.askedBeside(ctx, e, unit.Tx())
	switch {
	case err != nil:
		return x.lentFailed(ctx, e, unit, err)
	case known:
		return x.knownBeside(ctx, e, unit, intake)
	}
	reply, err := x.run(fenced(ctx, intake.Locks, unit.Found().Locks), e, unit)

	// Commit or park.
	a := answerOf(err, e.Overtaken < mostOvertaken && ctx.Err() == nil)
	switch d := x.table.AfterHandler(a.says | x.stepFacts(e)); d.Do {
	case decide.Commit:
		return x.finish(ctx, e, unit, intake, reply)
	case decide.RetryNow:
		e.Overtaken++
		if _, back := unit.Rollback(ctx); errors.Is(back, store.ErrLent) {
			return x.failure(ctx, e, x.db.Apply, endedBy(e, back))
		}
		return x.take(ctx, e) // in the rest of its time
	case decide.StoreCall:
		return x.intend(ctx, e, unit, intake, a.call, d)
	case decide.Reject:
		return x.reject(ctx, e, unit, intake, a.no, reply)
	case decide.Wait:
		return x.later(ctx, e, unit.Rollback, a.wait.After, err)
	}
	return x.lentFailed(ctx, e, unit, fmt.Errorf("handle %s: %w", e.TypeAndName(), err))
}

// unrun carries out a decision that runs no handler.
func (x *Executor[TTx]) unrun(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
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
		return x.queue(ctx, e, unit.Rollback)
	case decide.CompareParked:
		return x.keptAlready(ctx, e, unit, print)
	case decide.Quarantine:
		return x.quarantine(ctx, e, unit, d, print)
	case decide.Repeat:
		return x.repeat(ctx, e, unit, unit.Found().Marks[0])
	case decide.DecideByStep:
		_, _ = unit.Rollback(ctx) // its intake was of a message that is to be handled
		return x.finishedElsewhere(ctx, e, unit.Found().Marks[0], print)
	case decide.DeleteParked:
		_, _ = unit.Rollback(ctx, store.Effect{Finish: x.freed(e)}) // else it is claimed again
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
