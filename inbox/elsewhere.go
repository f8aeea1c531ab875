package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/skald-go/skald/store"
)

// finishedElsewhere lets a claimed message go that has a mark, and its step with it. Who marked it may know no steps (a build from before,
// an import of marks), and then the step still waits for this message, as does whoever is to undo it. So it becomes what the mark says,
// in the effect that lets the message go: if that fails, both are tried again.
func (in *Inbox[TTx]) finishedElsewhere(ctx context.Context, e *entry, v store.Verdict) result {
	err := in.settleElsewhere(ctx, e, v)
	if err != nil && !errors.Is(err, store.ErrLost) { // who lost it is not the one to let go of it
		return in.failure(ctx, e, in.db.Apply, fmt.Errorf("let go of %s, which somebody finished: %w", e.ID, err))
	}
	return result{entry: e, what: duplicate}
}

func (in *Inbox[TTx]) settleElsewhere(ctx context.Context, e *entry, v store.Verdict) error {
	unit, err := in.db.Begin(ctx, store.Intake{Steps: []store.Step{*e.step}, Server: e.server, Wait: in.o.Wait, Handle: in.o.Handle})
	if err != nil {
		return err
	}
	e.stood = unit.Found().Steps[0]
	free := store.Effect{Free: in.freed(e)}
	own := e.stood.State == store.StepCalling && e.calls(e.stood)
	switch {
	case e.takes() != nil:
		free.Step = e.tookElsewhere(v, own)
	case own && v.Outcome == store.Done:
		free.Step = e.called(store.StepUndone)
	case own:
		free.Step = e.called(store.StepDone)
	case v.Outcome != store.Done || e.stood.State == store.StepTooOld: // it undid nothing, or nobody knows what
		_, err = unit.Rollback(ctx, free)
		return err
	case e.stood.State == store.StepDead:
		free.Release = &store.Release{Consumer: in.group, Identity: e.stood.Identity, Dead: true}
	}
	return unit.Commit(ctx, free)
}

// tookElsewhere is what becomes of the step that e takes, where nobody else has taken or barred it, own or not: of its own call.
func (e *entry) tookElsewhere(v store.Verdict, own bool) *store.Step {
	at := *e.takes()
	at.Code, at.Result = v.Code, v.Result
	switch v.Outcome {
	case store.Rejected:
		at.State = store.StepRejected
	case store.Barred:
		at.State = store.StepBarred
	}
	switch e.stood.State {
	case store.StepAbsent, store.StepParked, store.StepDead: // the intake took it
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
