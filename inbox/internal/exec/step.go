// This file has the steps of sagas: messages that do a step or undo it.

package exec

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// askLegacySteps reports whether the LegacySteps function has the step of e.
func (x *Executor[TTx]) askLegacySteps(ctx context.Context, e *partition.Entry,
	tx TTx) (knows decide.Facts, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("call the LegacySteps function for step %s of %s: %w", e.Step.Name, e.Step.Saga,
				err)
		}
	}()
	step, undo, cause := *e.Step, e.Takes() == nil, skald.WithCause(ctx, e.Message)
	took, err := runLimited(ctx, x, []*partition.Entry{e}, func() (bool, error) {
		return x.legacySteps(cause, tx, &step, undo)
	})
	if took {
		return decide.LegacyDone, err
	}
	return decide.LegacyNot, err
}

// LegacyStepsFunc looks up in the user's table whether a step took effect before Skald had a row of it. It
// also records in that table that the step is done now. If undo is true, it records that the step will not be
// done.
type LegacyStepsFunc[TTx any] func(ctx context.Context, tx TTx, s *store.Step, undo bool) (bool, error)

// StepRole is the role of a kind of message in a saga.
type StepRole struct {
	State store.StepState // StepDone if the message does the step, StepUndone if it undoes the step
	// Of returns the saga, name, occurrence and begin of the step of a message.
	Of func(ctx context.Context, m skald.Message) (store.Step, error)
	// Publish returns the drafts to publish for a message if its handler does not run.
	Publish func(ctx context.Context, m skald.Message, was store.StepState) ([]skald.Draft, error)
}

// step returns the step that e does or undoes, or nil.
func (x *Executor[TTx]) step(ctx context.Context, e *partition.Entry) (s *store.Step, err error) {
	c, some := x.steps[e.Kind()]
	if !some {
		return nil, nil
	}
	m := copyOf(e)
	own, err := runLimited(ctx, x, []*partition.Entry{e}, func() (store.Step, error) { return c.Of(ctx, m) })
	if err != nil {
		return nil, err
	}
	own.Consumer, own.State, own.Identity = x.o.Group, c.State, e.Identity()
	return &own, nil
}

// settleWait is how long a message is parked while the outside call of its step is in progress.
const settleWait = time.Second

// undone has a step that a message undoes, and the row of that step.
type undone struct{ step, row store.Step }

type undoneKey struct{}

// withUndoneStep returns a context for the handler of a message that undoes a step.
func withUndoneStep(ctx context.Context, e *partition.Entry) context.Context {
	return context.WithValue(ctx, undoneKey{}, undone{step: *e.Step, row: e.PriorStep})
}

// Undone returns the step that the current message undoes, and its row. It returns false if the message
// undoes no step.
func Undone(ctx context.Context) (step, row store.Step, some bool) {
	u, some := ctx.Value(undoneKey{}).(undone)
	return u.step, u.row, some
}

// finishBare finishes a message without its handler: it commits its mark and its drafts. A second message for
// the same step gets the reply of the first one and publishes nothing. If the step is barred and its message
// is a dead letter, finishBare requeues the dead letter. The next attempt at that message ends as barred, and
// the later messages of its key continue.
func (x *Executor[TTx]) finishBare(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	intake store.Intake, d decide.Decision) Result {
	r, was := Reply{}, e.PriorStep
	if _, err := x.askLegacyDedup(ctx, e, unit.Tx()); err != nil {
		// The result does not matter, but the function must record the message.
		return x.handlerFailed(ctx, e, unit, err)
	}
	if d.Ending != decide.Duplicate {
		var err error
		if r.Publish, err = x.bareReply(ctx, e, was.State); err != nil {
			return x.handlerFailed(ctx, e, unit, fmt.Errorf("reply that step %s is %v: %w", e.Step.Name,
				was.State, err))
		}
	}
	effect, err := x.replyEffect(ctx, e, r, intake, decide.ReturnedNil)
	if err != nil {
		return x.handlerFailed(ctx, e, unit, fmt.Errorf("reply to %s: %w", e.Name(), err))
	}
	if d.Requeue {
		effect.Requeue = x.requeueStep(e)
	}
	if d.Mark != store.Done || d.Ending == decide.Duplicate {
		mark := intake.Marks[0]
		if effect.Answer != nil {
			mark = *effect.Answer
		}
		if mark.Outcome = d.Mark; d.Ending == decide.Duplicate {
			mark.Code, mark.Result = was.Code, was.Result
		}
		if d.Mark == store.Rejected {
			mark.Reason = "its step was already rejected: message " + was.ID
		}
		effect.Answer = &mark
	}
	return x.commit(ctx, e, unit, effect, d.Ending)
}

// requeueStep returns the effect that requeues the dead letter of the step of e.
func (x *Executor[TTx]) requeueStep(e *partition.Entry) *store.Requeue {
	return &store.Requeue{Consumer: x.o.Group, Identity: e.PriorStep.Identity, Dead: true}
}

// bareReply returns the drafts to publish for a message if its handler does not run.
func (x *Executor[TTx]) bareReply(ctx context.Context, e *partition.Entry,
	was store.StepState) (drafts []skald.Draft, err error) {
	m, publish := copyOf(e), x.steps[e.Kind()].Publish
	return runLimited(ctx, x, []*partition.Entry{e},
		func() ([]skald.Draft, error) { return publish(ctx, m, was) })
}
