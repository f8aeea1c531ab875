package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/skald-go/skald/store"
)

// finishedElsewhere lets a claimed message go that has a mark, and its step with it. Who marked it may know no steps (a build from before,
// an import of marks), and then the step still waits for this message, as does whoever is to undo it. So it becomes what the mark says,
// as it would have here, and what its own call has moved is not forgotten: in the effect that lets the message go, so that if that fails
// both are tried again.
func (in *Inbox[TTx]) finishedElsewhere(ctx context.Context, e *entry, v store.Verdict, print int64) result {
	unit, err := in.db.Begin(ctx, store.Intake{Steps: []store.Step{*e.step}, Server: e.server, Wait: in.o.Wait, Handle: in.o.Handle})
	if err != nil {
		return in.letGo(ctx, e, duplicate, err)
	}
	e.stood = unit.Found().Steps[0]
	own := e.stood.State == store.StepCalling && e.calls(e.stood)
	goes := store.Effect{Free: in.freed(e)}
	if judge(v, print) == store.Conflict { // the mark is of another message, and says nothing of this one
		goes.Quarantine = apartOf(in.group, e, store.Conflict, print)
		if goes.Step = e.movedElsewhere(own); goes.Step == nil {
			_, err = unit.Rollback(ctx, goes)
			return in.letGo(ctx, e, conflict, err)
		}
		return in.letGo(ctx, e, conflict, unit.Commit(ctx, goes))
	}
	switch {
	case e.takes() != nil:
		goes.Step = e.tookElsewhere(v, own)
	case own:
		if goes.Step = e.movedElsewhere(own); v.Outcome == store.Done {
			goes.Step = e.called(store.StepUndone)
		}
	case v.Outcome != store.Done || e.stood.State == store.StepTooOld: // it undid nothing, or nobody knows what
		_, err = unit.Rollback(ctx, goes)
		return in.letGo(ctx, e, duplicate, err)
	case e.stood.State == store.StepCalling: // whoever marked it did not know of this call
		r := in.later(ctx, e, unit.Rollback, settleFirst, fmt.Errorf("step %s of %s: a call outside is under way", e.step.Name, e.step.Saga))
		in.settleToUndo(ctx, e.stood.Identity)
		return r
	case e.stood.State == store.StepDead:
		goes.Release = &store.Release{Consumer: in.group, Identity: e.stood.Identity, Dead: true}
	}
	return in.letGo(ctx, e, duplicate, unit.Commit(ctx, goes))
}

// letGo is how a message ends that somebody finished.
func (in *Inbox[TTx]) letGo(ctx context.Context, e *entry, what ending, err error) result {
	if err != nil && !errors.Is(err, store.ErrLost) { // who lost it is not the one to let go of it
		return in.failure(ctx, e, in.db.Apply, fmt.Errorf("let go of %s, which somebody finished: %w", e.ID, err))
	}
	if what == conflict {
		in.tellApart(ctx, e, store.Conflict)
	}
	return result{entry: e, what: what}
}

// movedElsewhere is what its own call makes of the step of e; nil: it has none.
func (e *entry) movedElsewhere(own bool) *store.Step {
	switch {
	case !own:
		return nil
	case e.takes() != nil:
		return called(e.takes(), e.outcome, 0, "")
	case declined(e.outcome):
		return e.called(store.StepDone)
	}
	return e.called(store.StepUndone)
}

// tookElsewhere is what becomes of the step that e takes, where nobody else has taken or barred it, own or not: of its own call. What that
// has moved was taken, whatever the mark says.
func (e *entry) tookElsewhere(v store.Verdict, own bool) *store.Step {
	if own && v.Outcome != store.Done {
		return e.movedElsewhere(own)
	}
	at := *e.takes()
	at.Code, at.Result = v.Code, v.Result
	switch v.Outcome {
	case store.Rejected:
		at.State = store.StepRejected
	case store.Barred:
		at.State = store.StepBarred
	}
	switch e.stood.State {
	case store.StepAbsent, store.StepTooOld, store.StepParked, store.StepDead: // the intake took it
		at.From = []store.StepState{store.StepDone}
		return &at
	case store.StepCalling:
		if own {
			at.From = []store.StepState{store.StepCalling}
			return &at
		}
	}
	return nil
}
