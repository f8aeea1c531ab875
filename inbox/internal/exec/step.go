package exec

import (
	"context"
	"fmt"

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
	err = guarded[TTx](ctx, func() (err error) {
		took, err = x.took(skald.WithCause(ctx, e.Message), tx, e.Step, e.Takes() == nil)
		return err
	})
	if took {
		return decide.LegacyTook, err
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
	Of  func(ctx context.Context, m skald.Message) (store.Step, error)
	Say func(ctx context.Context, m skald.Message, was store.StepState) ([]skald.Draft, error)
}

// step is the step that e takes or undoes; nil: none.
func (x *Executor[TTx]) step(ctx context.Context, e *partition.Entry) (s *store.Step, err error) {
	c, some := x.steps[e.Kind()]
	if !some {
		return nil, nil
	}
	var own store.Step
	err = guarded[TTx](ctx, func() (err error) {
		own, err = c.Of(ctx, e.Message)
		return err
	})
	if err != nil {
		return nil, err
	}
	own.Consumer, own.State, own.Identity = x.o.Group, c.State, e.Identity()
	return &own, nil
}
