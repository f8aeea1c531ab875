package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// ErrCrashes is the failure of a message that ended its process again and again.
var ErrCrashes = errors.New("inbox: its process ended each time that nothing but this message was run")

// careful does what must stand in the database before a message is run that a process may have died of. It is
// parked, so that whoever claims it knows; and charged with a kill that only its own end takes back.
func (in *Inbox[TTx]) careful(ctx context.Context, e *partition.Entry) (r result, over bool) {
	switch k := in.parcel(e); {
	case e.Parked == nil:
		k.Claims = trusted - 1
		return in.putAside(ctx, e, k)
	case e.Parked.CrashCount >= in.o.Retry.Crashes:
		return in.killer(ctx, e, k), true
	default:
		r = in.charge(ctx, e, k)
		return r, r.what != decide.Handled
	}
}

// charge has k say that its process ends with nothing but it in hand, unless it answers. Handled: it stands.
func (in *Inbox[TTx]) charge(ctx context.Context, e *partition.Entry, k *store.Park) result {
	k.CrashCount, k.Claims, k.Session = k.CrashCount+1, e.Parked.Claims, e.Parked.Session // no answer yet
	k.Due = in.lease(turnOfClaimed)
	return in.store(ctx, e, in.db.Apply, store.Effect{Park: k}, result{entry: e, what: decide.Handled})
}

// ahead is aheadOf, careful first of a call that a process may have died of: what asks the outside is run
// before its message is taken. One that is not timely is not made.
func (in *Inbox[TTx]) ahead(ctx context.Context, e *partition.Entry) result {
	c, calls := in.calls[e.Kind()]
	if calls && e.Alone && e.Call != nil && e.Call.Outcome == "" && c.Timely(in.leaseOf(e)) {
		if r, over := in.careful(ctx, e); over {
			return r
		}
	}
	return in.aheadOf(ctx, e)
}

// putAside parks a suspect, if it is one that may be taken at all; else it goes the way of others. What it
// takes in beside its mark is not asked of it: to read that may be what a process died of. Nor is it where
// the suspect is kept already, and was not acknowledged.
func (in *Inbox[TTx]) putAside(ctx context.Context, e *partition.Entry, k *store.Park) (r result, over bool) {
	m := in.mark(e)
	unit, err := in.db.Begin(ctx, store.Intake{Marks: []store.Mark{m}, Server: e.Server,
		Wait: in.o.Timeouts.Wait, Handle: in.o.Timeouts.Handle})
	if err != nil {
		return in.storeFailed(ctx, e, fmt.Errorf("take in %s: %w", e.ID, err)), true
	}
	switch unit.Found().Marks[0].Outcome {
	case store.Fresh, store.Behind:
		return in.store(ctx, e, unit.Rollback, store.Effect{Park: k}, result{entry: e, what: decide.Queued}), true
	case store.Waiting, store.Dead:
		return in.keptAlready(ctx, e, unit, m.Fingerprint), true
	}
	_, _ = unit.Rollback(ctx)
	return r, false
}

// killer makes a dead letter of a message that ended its process too often, and notes its step, so that
// whoever undoes that lets it go. No attempt may have come so far as to note it. To know it the payload is
// read, which may be what ends the process: that is charged, too. After as many deaths of that the step is
// not known to anybody, and an operator has to drop the letter.
func (in *Inbox[TTx]) killer(ctx context.Context, e *partition.Entry, k *store.Park) result {
	c, takes := in.steps[e.Kind()]
	takes = takes && c.state != store.StepUndone && e.Call == nil
	blind := takes && e.Parked.CrashCount >= 2*in.o.Retry.Crashes
	if takes && !blind {
		if r := in.charge(ctx, e, in.parcel(e)); r.what != decide.Handled {
			return r
		}
		reading, cancel := context.WithTimeoutCause(ctx, in.o.Timeouts.Handle, failure.ErrTimeout)
		defer cancel()
		var err error
		if e.Step, err = in.step(reading, e); err != nil {
			return in.failure(ctx, e, in.db.Apply, fmt.Errorf("step of %s, which ended its process %d times: %w", e.ID, e.Parked.CrashCount, err))
		}
		k.Step = e.Takes()
	}
	now, err := in.o.Now(), fmt.Errorf("%w: %d times", ErrCrashes, e.Parked.CrashCount)
	if blind {
		err = fmt.Errorf("%w, the last ones as its step was read, which nobody knows: no compensation lets it go", err)
	}
	in.failed(k, err.Error(), now, false)
	k.Dead = in.death(string(failure.Crash), failure.Crash, e, err, now)
	effect := store.Effect{Park: k, Rows: in.announce.Rows(ctx, &k.Parked)}
	return in.store(ctx, e, in.db.Apply, effect, result{entry: e, what: decide.Dead, err: err, attempts: k.Attempts})
}
