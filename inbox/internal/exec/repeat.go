// This file ends messages that are finished already.

package exec

import (
	"context"
	"errors"
	"fmt"

	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
)

// finishedElsewhere finishes a claimed message that another process or an import has marked. It also finishes
// its step. The writer of the mark may not have changed the step: an older build or an import does not. The
// step, and any undo of it, would then wait for this message forever. So finishedElsewhere sets the state
// that the mark implies. One effect changes the step and deletes the parked row, so that a retry repeats
// both.
func (x *Executor[TTx]) finishedElsewhere(ctx context.Context, e *partition.Entry, v store.Verdict,
	print int64) Result {
	unit, err := x.db.Begin(ctx, store.Intake{Steps: []store.Step{*e.Step}, Server: e.Server,
		Wait: x.o.Wait, Handle: x.o.Handle})
	if err != nil {
		return x.endFinished(ctx, e, decide.Duplicate, err)
	}
	e.PriorStep = unit.Found().Steps[0]
	d := x.table.AfterOtherMark(decide.Mark(outcomeOf(v, print)) | x.stepFacts(e))
	effect := store.Effect{Finish: x.finishParked(e)}
	switch {
	case d.Do == decide.Wait:
		return x.waitForCall(ctx, e, unit.Rollback, d)
	case d.Step.ByMark:
		effect.Step = stepChange(e, d.Step, v.Code, v.Result)
	default:
		effect.Step = stepChange(e, d.Step, 0, "")
	}
	if d.Ending == decide.Conflict {
		effect.Quarantine = newQuarantined(x.o.Group, e, d.Mark, print)
	}
	if d.Requeue {
		effect.Requeue = x.requeueStep(e)
	}
	if d.Commits {
		err = unit.Commit(ctx, effect)
	} else {
		_, err = unit.Rollback(ctx, effect)
	}
	return x.endFinished(ctx, e, d.Ending, err)
}

// endFinished returns the result of a message that another process finished. The parameter err is the error
// of deleting the message's parked row.
func (x *Executor[TTx]) endFinished(ctx context.Context, e *partition.Entry, what decide.Ending,
	err error) Result {
	if err != nil && !errors.Is(err, store.ErrLost) { // after ErrLost another process deletes the row
		return x.storeFailed(ctx, e,
			fmt.Errorf("delete the parked row of %s, which another process finished: %w", e.Name(), err))
	}
	if what == decide.Conflict {
		x.logQuarantine(ctx, e, store.Conflict)
	}
	return Result{Entry: e, What: what}
}

// resends reports whether a duplicate publishes the stored reply again.
func (x *Executor[TTx]) resends(e *partition.Entry, v store.Verdict) bool {
	if v.Emitted == "" {
		return false
	}
	yes, _ := x.Announces(e)
	return yes
}

// Announces reports whether each duplicate of e publishes the reply again. If Options.Identity.Repeat fails,
// Announces returns false and the error. The next duplicate calls the function again.
func (x *Executor[TTx]) Announces(e *partition.Entry) (bool, error) {
	if x.o.Repeat == nil {
		return false, nil
	}
	m, yes := copyOf(e), false
	err := x.pure(e, "Options.Identity.Repeat", func() error { yes = x.o.Repeat(m); return nil })
	if err != nil {
		x.o.Logger.Warn("inbox: Options.Identity.Repeat failed", "consumer", x.o.Group, "id", e.ID,
			"type", e.Type, "error", err)
		return false, err
	}
	return yes, nil
}

// DropsDuplicate reports whether e is a duplicate that needs no more work. It returns false for a conflict,
// and for a duplicate that publishes the reply again.
func (x *Executor[TTx]) DropsDuplicate(e *partition.Entry, v store.Verdict) bool {
	print, err := x.print(e) // the attempt at e reports the error
	return err == nil && once.Judge(v, print) != store.Conflict && !x.resends(e, v)
}

// repeat ends a duplicate. If Options.Identity.Repeat returns true for it, repeat publishes the stored reply
// again.
func (x *Executor[TTx]) repeat(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	v store.Verdict) Result {
	if !x.resends(e, v) {
		_, _ = unit.Rollback(ctx) // the transaction wrote nothing, so an error has no effect
		return Result{Entry: e, What: decide.Duplicate}
	}
	rows, err := once.DecodeEmitted(v.Emitted)
	if err == nil {
		_, err = unit.Rollback(ctx, store.Effect{Rows: rows})
	}
	if err != nil {
		return x.storeFailed(ctx, e,
			fmt.Errorf("publish the reply to %s again: %w", partition.Shown(e.Given.ID), err))
	}
	return Result{Entry: e, What: decide.Duplicate}
}
