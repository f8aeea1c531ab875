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

// finishedElsewhere lets a claimed message go that has a mark, and its step with it. Who marked it may know
// no steps (a build from before, an import of marks), and then the step still waits for this message, as does
// whoever is to undo it. So the step becomes what the mark says, as it would have here: in the effect that
// lets the message go, so that if that fails both are tried again.
func (x *Executor[TTx]) finishedElsewhere(ctx context.Context, e *partition.Entry, v store.Verdict,
	print int64) Result {
	unit, err := x.db.Begin(ctx, store.Intake{Steps: []store.Step{*e.Step}, Server: e.Server,
		Wait: x.o.Wait, Handle: x.o.Handle})
	if err != nil {
		return x.letGo(ctx, e, decide.Duplicate, err)
	}
	e.Stood = unit.Found().Steps[0]
	d := x.table.AfterOtherMark(decide.Mark(judged(v, print)) | x.stepFacts(e))
	goes := store.Effect{Finish: x.freed(e)}
	switch {
	case d.Do == decide.Wait:
		return x.waitForCall(ctx, e, unit.Rollback, d)
	case d.Step.ByMark:
		goes.Step = becomes(e, d.Step, v.Code, v.Result)
	default:
		goes.Step = becomes(e, d.Step, 0, "")
	}
	if d.Ending == decide.Conflict {
		goes.Quarantine = apartOf(x.o.Group, e, d.Mark, print)
	}
	if d.Requeue {
		goes.Requeue = x.requeued(e)
	}
	if d.Commits {
		err = unit.Commit(ctx, goes)
	} else {
		_, err = unit.Rollback(ctx, goes)
	}
	return x.letGo(ctx, e, d.Ending, err)
}

// letGo is how a message ends that somebody finished.
func (x *Executor[TTx]) letGo(ctx context.Context, e *partition.Entry, what decide.Ending, err error) Result {
	if err != nil && !errors.Is(err, store.ErrLost) { // who lost it is not the one to let go of it
		return x.storeFailed(ctx, e, fmt.Errorf("let go of %s, which somebody finished: %w", e.Name(), err))
	}
	if what == decide.Conflict {
		x.tellApart(ctx, e, store.Conflict)
	}
	return Result{Entry: e, What: what}
}

// again tells whether a repeat is to send again what was said.
func (x *Executor[TTx]) again(e *partition.Entry, v store.Verdict) bool {
	if v.Emitted == "" {
		return false
	}
	yes, _ := x.Announces(e)
	return yes
}

// Announces reports whether the answer to e is sent again for each duplicate. It returns false after an error
// of Options.Identity.Repeat: the next duplicate calls the function again.
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

// Harmless tells of a message that was finished before whether nothing more is to be done about it.
func (x *Executor[TTx]) Harmless(e *partition.Entry, v store.Verdict) bool {
	print, err := x.print(e) // the attempt at the message reports its error
	return err == nil && once.Judge(v, print) != store.Conflict && !x.again(e, v)
}

// repeat is done with that it was done before; what was said then is sent again where that is asked for.
func (x *Executor[TTx]) repeat(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	v store.Verdict) Result {
	if !x.again(e, v) {
		_, _ = unit.Rollback(ctx) // nothing was written: a lost connection changes nothing
		return Result{Entry: e, What: decide.Duplicate}
	}
	rows, err := once.DecodeEmitted(v.Emitted)
	if err == nil {
		_, err = unit.Rollback(ctx, store.Effect{Rows: rows})
	}
	if err != nil {
		return x.storeFailed(ctx, e,
			fmt.Errorf("write the messages of %s again: %w", partition.Shown(e.Given.ID), err))
	}
	return Result{Entry: e, What: decide.Duplicate}
}
