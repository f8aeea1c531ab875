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

// Trusted are claims, of which one found no answer: that process was ended, but mostly by something else.
const Trusted = 2

// ErrCrashes is the failure of a message that ended its process again and again.
var ErrCrashes = errors.New("inbox: its process ended each time that nothing but this message was run")

// careful does what must stand in the database before a message is run that a process may have died of. It is
// parked, so that whoever claims it knows; and charged with a kill that only its own end takes back.
func (x *Executor[TTx]) careful(ctx context.Context, e *partition.Entry) (r Result, over bool) {
	switch k := x.Parcel(e); {
	case e.Parked == nil:
		k.Claims = Trusted - 1
		return x.putAside(ctx, e, k)
	case e.Parked.CrashCount >= x.o.Crashes:
		return x.killer(ctx, e, k), true
	default:
		r = x.charge(ctx, e, k)
		return r, r.What != decide.Handled
	}
}

// charge has k say that its process ends with nothing but it in hand, unless it answers. Handled: it stands.
func (x *Executor[TTx]) charge(ctx context.Context, e *partition.Entry, k *store.Park) Result {
	k.CrashCount, k.Claims, k.Session = k.CrashCount+1, e.Parked.Claims, e.Parked.Session // no answer yet
	k.Due = x.Lease(TurnOfClaimed)
	return x.store(ctx, e, x.db.Apply, store.Effect{Park: k}, Result{Entry: e, What: decide.Handled})
}

// putAside parks a suspect, if it is one that may be taken at all; else it goes the way of others. What it
// takes in beside its mark is not asked of it: to read that may be what a process died of. Nor is it where
// the suspect is kept already, and was not acknowledged.
func (x *Executor[TTx]) putAside(ctx context.Context, e *partition.Entry,
	k *store.Park) (r Result, over bool) {
	m, _ := x.mark(e) // without a fingerprint, nothing is compared
	unit, err := x.db.Begin(ctx, store.Intake{Marks: []store.Mark{m}, Server: e.Server,
		Wait: x.o.Wait, Handle: x.o.Handle})
	if err != nil {
		return x.takeFailed(ctx, e, fmt.Errorf("take in %s: %w", e.Name(), err)), true
	}
	switch unit.Found().Marks[0].Outcome {
	case store.Fresh, store.Behind:
		return x.store(ctx, e, unit.Rollback, store.Effect{Park: k}, Result{Entry: e, What: decide.Queued}),
			true
	case store.Waiting, store.Dead:
		return x.keptAlready(ctx, e, unit, m.Fingerprint), true
	}
	_, _ = unit.Rollback(ctx)
	return r, false
}

// killer makes a dead letter of a message that ended its process too often, and notes its step, so that
// whoever undoes that lets it go. No attempt may have come so far as to note it. To know it the payload is
// read, which may be what ends the process: that is charged, too. After as many deaths of that the step is
// not known to anybody, and an operator has to drop the letter.
func (x *Executor[TTx]) killer(ctx context.Context, e *partition.Entry, k *store.Park) Result {
	c, takes := x.steps[e.Kind()]
	takes = takes && c.State != store.StepUndone && e.Call == nil
	blind := takes && e.Parked.CrashCount >= 2*x.o.Crashes
	if takes && !blind {
		if r := x.charge(ctx, e, x.Parcel(e)); r.What != decide.Handled {
			return r
		}
		reading, cancel := context.WithTimeoutCause(ctx, x.o.Handle, failure.ErrTimeout)
		defer cancel()
		var err error
		if e.Step, err = x.step(reading, e); err != nil {
			return x.failure(ctx, e, x.db.Apply,
				fmt.Errorf("step of %s, which ended its process %d times: %w", e.Name(),
					e.Parked.CrashCount, err))
		}
		k.Step = e.Takes()
	}
	now, err := x.o.Now(), fmt.Errorf("%w: %d times", ErrCrashes, e.Parked.CrashCount)
	if blind {
		err = fmt.Errorf(
			"%w, the last ones as its step was read, which nobody knows: no compensation lets it go", err)
	}
	x.failed(k, err.Error(), now, false)
	k.Dead = x.death(string(failure.Crash), failure.Crash, e, err, now)
	effect := store.Effect{Park: k, Rows: x.o.Announce.Rows(ctx, &k.Parked)}
	return x.store(ctx, e, x.db.Apply, effect,
		Result{Entry: e, What: decide.Dead, Err: err, Attempts: k.Attempts})
}
