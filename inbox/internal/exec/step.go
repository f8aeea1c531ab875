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

// askedLegacy is what LegacySteps knows of the step of e.
func (x *Executor[TTx]) askedLegacy(ctx context.Context, e *partition.Entry,
	tx TTx) (knows decide.Facts, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("ask what is beside about step %s of %s: %w", e.Step.Name, e.Step.Saga, err)
		}
	}()
	took := false
	err = x.watched(ctx, e, func() (err error) {
		took, err = x.took(skald.WithCause(ctx, e.Message), tx, e.Step, e.Takes() == nil)
		return err
	})
	if took {
		return decide.LegacyDone, err
	}
	return decide.LegacyNot, err
}

// A Lookup function asks a table of the user's whether a step took effect before it had a row of Skald's, and
// notes there that it is taken now or (undo) will not be.
type Lookup[TTx any] func(ctx context.Context, tx TTx, s *store.Step, undo bool) (bool, error)

// A Course is what a message of one kind is to a saga.
type Course struct {
	State store.StepState // StepDone: it takes the step; StepUndone: it undoes it
	// names the step of a message: what it is of, no more
	Of      func(ctx context.Context, m skald.Message) (store.Step, error)
	Publish func(ctx context.Context, m skald.Message, was store.StepState) ([]skald.Draft, error)
}

// step is the step that e takes or undoes; nil: none.
func (x *Executor[TTx]) step(ctx context.Context, e *partition.Entry) (s *store.Step, err error) {
	c, some := x.steps[e.Kind()]
	if !some {
		return nil, nil
	}
	var own store.Step
	err = x.watched(ctx, e, func() (err error) {
		own, err = c.Of(ctx, copyOf(e))
		return err
	})
	if err != nil {
		return nil, err
	}
	own.Consumer, own.State, own.Identity = x.o.Group, c.State, e.Identity()
	return &own, nil
}

// settleFirst is how long a message waits whose step has a call outside under way.
const settleFirst = time.Second

// An undone is a step that a message undoes: what it is of, and how the store has it.
type undone struct{ step, stood store.Step }

type undoneKey struct{}

// undoing is ctx for the handler of a message that undoes a step.
func undoing(ctx context.Context, e *partition.Entry) context.Context {
	return context.WithValue(ctx, undoneKey{}, undone{step: *e.Step, stood: e.Stood})
}

// Undone is the step that the message in hand undoes, and how the step stands; false: it undoes none.
func Undone(ctx context.Context) (step, stood store.Step, some bool) {
	u, some := ctx.Value(undoneKey{}).(undone)
	return u.step, u.stood, some
}

// finishBare finishes a message without its handler: only its mark stands, and what is to be said. A repeat
// of a step has the answer of the first, and says nothing. A dead letter whose step is barred by it is let
// go: it is taken once more, is finished as barred, and the messages of its key go on.
func (x *Executor[TTx]) finishBare(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	intake store.Intake, d decide.Decision) Result {
	r, was := Reply{}, e.Stood
	if _, err := x.askedBeside(ctx, e, unit.Tx()); err != nil {
		// what it knows changes nothing here: it is to note it
		return x.lentFailed(ctx, e, unit, err)
	}
	if d.Ending != decide.Duplicate {
		var err error
		if r.Publish, err = x.saying(ctx, e, was.State); err != nil {
			return x.lentFailed(ctx, e, unit, fmt.Errorf("say that step %s is %v: %w", e.Step.Name,
				was.State, err))
		}
	}
	leaves, err := x.leaves(ctx, e, r, intake, decide.ReturnedNil)
	if err != nil {
		return x.lentFailed(ctx, e, unit, fmt.Errorf("answer of %s: %w", e.Name(), err))
	}
	if d.Requeue {
		leaves.Requeue = x.requeued(e)
	}
	if d.Mark != store.Done || d.Ending == decide.Duplicate {
		mark := intake.Marks[0]
		if leaves.Answer != nil {
			mark = *leaves.Answer
		}
		if mark.Outcome = d.Mark; d.Ending == decide.Duplicate {
			mark.Code, mark.Result = was.Code, was.Result
		}
		if d.Mark == store.Rejected {
			mark.Reason = "its step was rejected before: message " + was.ID
		}
		leaves.Answer = &mark
	}
	return x.commit(ctx, e, unit, leaves, d.Ending)
}

// requeued has the dead letter go on that would take the step of e.
func (x *Executor[TTx]) requeued(e *partition.Entry) *store.Requeue {
	return &store.Requeue{Consumer: x.o.Group, Identity: e.Stood.Identity, Dead: true}
}

// saying is what is to be said where a message has nothing to do.
func (x *Executor[TTx]) saying(ctx context.Context, e *partition.Entry,
	was store.StepState) (say []skald.Draft, err error) {
	err = x.watched(ctx, e, func() (err error) {
		say, err = x.steps[e.Kind()].Publish(ctx, copyOf(e), was)
		return err
	})
	return say, err
}
