// This file handles messages that may crash their process.

package exec

import (
	"context"
	"errors"
	"fmt"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// TrustedClaims is the maximum number of claims of a message that is not a suspect. After two claims its
// process crashed once during an attempt, but usually another message caused that crash.
const TrustedClaims = 2

// ErrCrashes is the failure of a message if its process crashed repeatedly.
var ErrCrashes = errors.New("inbox: its process crashed each time that only this message ran")

// guardSuspect prepares the attempt at a message that may have crashed a process. It parks a message from
// the broker, as if the message had been claimed once before. For a parked message it counts a crash in
// advance, which only a finished attempt removes. It returns ended true if the attempt ends with the result
// r.
func (x *Executor[TTx]) guardSuspect(ctx context.Context, e *partition.Entry) (r Result, ended bool) {
	switch k := x.NewPark(e); {
	case e.Parked == nil:
		k.Claims = TrustedClaims - 1
		return x.parkSuspect(ctx, e, k)
	case e.Parked.CrashCount >= x.o.Crashes:
		return x.deadAfterCrashes(ctx, e, k), true
	default:
		r = x.countCrash(ctx, e, k)
		return r, r.What != decide.Handled
	}
}

// countCrash counts a crash of this message in advance, in the store. A finished attempt removes it. The
// ending is Handled if the store has the crash.
func (x *Executor[TTx]) countCrash(ctx context.Context, e *partition.Entry, k *store.Park) Result {
	// The effect does not end the claim.
	k.CrashCount, k.Claims, k.Session = k.CrashCount+1, e.Parked.Claims, e.Parked.Session
	k.Due = x.Lease(MaxWaitClaimed)
	return x.park(ctx, e, x.db.Apply, store.Effect{Park: k}, Result{Entry: e, What: decide.Handled})
}

// parkSuspect parks a suspect that is new or behind other messages of its key. It returns false if the
// suspect has a mark or is too old. It reads only the mark, because building the rest of the intake may crash
// the process.
func (x *Executor[TTx]) parkSuspect(ctx context.Context, e *partition.Entry,
	k *store.Park) (r Result, over bool) {
	m, _ := x.mark(e) // after an error there is no fingerprint to compare
	unit, err := x.db.Begin(ctx, store.Intake{Marks: []store.Mark{m}, Server: e.Server,
		Wait: x.o.Wait, Handle: x.o.Handle})
	if err != nil {
		return x.intakeFailed(ctx, e, fmt.Errorf("take in %s: %w", e.Name(), err)), true
	}
	switch unit.Found().Marks[0].Outcome {
	case store.Fresh, store.Behind:
		return x.park(ctx, e, unit.Rollback, store.Effect{Park: k}, Result{Entry: e, What: decide.Queued}),
			true
	case store.Waiting, store.Dead:
		return x.alreadyKept(ctx, e, unit, m.Fingerprint), true
	}
	_, _ = unit.Rollback(ctx)
	return r, false
}

// deadAfterCrashes makes a message a dead letter if it crashed its process too often. It records the step of
// the message, so that an undo of the step can requeue the dead letter. An earlier attempt may not have
// recorded it.
//
// Reading the step reads the payload, which may crash the process. So this also counts as a crash in advance.
// After twice as many crashes the step is not recorded, and an operator has to drop the dead letter.
func (x *Executor[TTx]) deadAfterCrashes(ctx context.Context, e *partition.Entry, k *store.Park) Result {
	c, takes := x.steps[e.Kind()]
	takes = takes && c.State != store.StepUndone && e.Call == nil
	blind := takes && e.Parked.CrashCount >= 2*x.o.Crashes
	if takes && !blind {
		if r := x.countCrash(ctx, e, x.NewPark(e)); r.What != decide.Handled {
			return r
		}
		reading, cancel := context.WithTimeoutCause(ctx, x.o.Handle, failure.ErrTimeout)
		defer cancel()
		var err error
		if e.Step, err = x.step(reading, e); err != nil {
			return x.fail(ctx, e, x.db.Apply,
				fmt.Errorf("step of %s, which crashed its process %d times: %w", e.Name(),
					e.Parked.CrashCount, err))
		}
		k.Step = e.Takes()
	}
	now, err := x.o.Now(), fmt.Errorf("%w: %d times", ErrCrashes, e.Parked.CrashCount)
	if blind {
		err = fmt.Errorf(
			"%w, the last ones while reading its step, so no undo of the step requeues this letter", err)
	}
	x.recordFailure(k, err.Error(), now, false)
	k.Dead = x.newDeath(string(failure.Crash), failure.Crash, e, err, now)
	effect := store.Effect{Park: k, Rows: x.o.Announce.Rows(ctx, &k.Parked)}
	return x.park(ctx, e, x.db.Apply, effect,
		Result{Entry: e, What: decide.Dead, Err: err, Attempts: k.Attempts})
}
