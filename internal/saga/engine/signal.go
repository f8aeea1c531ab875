package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// NoSagaError is the error for a key that has no saga of a definition.
type NoSagaError struct{ Name, Key string }

func (e *NoSagaError) Error() string {
	return fmt.Sprintf("there is no saga %s %q: it was not started, its start is not committed, or it ended and was deleted", e.Name, e.Key)
}

// Signal is data for a step that waits for it.
type Signal struct {
	Name, Occurrence string
	Data             json.RawMessage
}

// Signal applies a signal to a saga in tx.
func (e *Engine[TTx]) Signal(ctx context.Context, tx TTx, d *Definition, key string,
	s Signal) (plan.Outcome, error) {
	if err := checkSignal(d, s); err != nil {
		return plan.Unknown, err
	}
	out, there, err := e.put(ctx, tx, d.Name, key,
		plan.Event{What: plan.Signal, Name: s.Name, Occurrence: s.Occurrence, Output: s.Data})
	if err == nil && !there {
		err = &NoSagaError{d.Name, key}
	}
	if err != nil {
		return plan.Unknown, fmt.Errorf("signal %s to %s %q: %w", s.Name, d.Name, key, err)
	}
	e.tally.Signalled(out)
	return out, nil
}

// runsFor is the context key for the saga that runs a function.
type runsFor struct{}

var errSelf = errors.New("a function of this saga sent it, and the function's own transaction holds the saga, so the signal would wait forever: " +
	"return the value instead, and read it in a later step by Output")

// SignalAlone is like Signal, in its own transaction. It refuses a signal that a function of the same saga
// sends, because this function's transaction has locked the saga.
func (e *Engine[TTx]) SignalAlone(ctx context.Context, d *Definition, key string,
	s Signal) (plan.Outcome, error) {
	if of, _ := ctx.Value(runsFor{}).(store.SagaRef); of.Name == d.Name && of.Key == key {
		err := fmt.Errorf("signal %s to %s %q: %w", s.Name, d.Name, key, errSelf)
		return plan.Unknown, skald.Permanent(err)
	}
	u, err := e.db.Begin(ctx, store.Intake{})
	if err != nil {
		return plan.Unknown, fmt.Errorf("signal %s to %s %q: %w", s.Name, d.Name, key, err)
	}
	out, err := e.Signal(ctx, u.Tx(), d, key, s)
	if err != nil || !out.Changed() {
		_, _ = u.Rollback(ctx)
		return out, err
	}
	if err := u.Commit(ctx); err != nil {
		return plan.Unknown, fmt.Errorf("signal %s to %s %q: %w", s.Name, d.Name, key, err)
	}
	e.kick()
	return out, nil
}

// checkSignal returns an error if no step of d waits for the signal, or if the data has the wrong type or
// is too large.
func checkSignal(d *Definition, s Signal) error {
	for i, step := range d.Plan.Graph.Steps {
		if step.Kind != plan.Wait || step.Signal != s.Name {
			continue
		}
		if err := d.Steps[i].Check(s.Data); err != nil {
			return fmt.Errorf("the signal %s of the saga %s takes data of another type: %w", s.Name,
				d.Name, err)
		}
		return CheckSize("the signal "+s.Name, s.Data, d.MaxBytes)
	}
	return fmt.Errorf("no step of the saga %s waits for a signal %q", d.Name, s.Name)
}
