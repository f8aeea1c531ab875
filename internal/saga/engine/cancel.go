package engine

import (
	"cmp"
	"context"
	"fmt"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
)

// Cancel turns a saga back in tx. It returns nothing=true if no step needs an undo, so that the saga ends. It
// returns a *NoSagaError if the saga does not exist.
func (e *Engine[TTx]) Cancel(ctx context.Context, tx TTx, d *Definition, key,
	reason string) (out plan.Outcome, nothing bool, err error) {
	fail := func(err error) (plan.Outcome, bool, error) {
		return plan.Unknown, false, fmt.Errorf("cancel %s %q: %w", d.Name, key, err)
	}
	out, there, err := e.put(ctx, tx, d.Name, key, plan.Event{What: plan.Cancel, Reason: reason})
	switch {
	case err != nil:
		return fail(err)
	case !there:
		return fail(&NoSagaError{d.Name, key})
	case out != plan.Taken:
		return out, false, nil
	}
	s, _, err := e.lock(ctx, tx, d.Name, key)
	st, wrong := sagarow.StateOf(s, 0)
	if err = cmp.Or(err, wrong); err != nil {
		return fail(err)
	}
	return out, st.Status == plan.Compensated || d.Plan.NothingToUndo(st), nil
}
