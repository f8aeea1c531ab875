// This file calls the LegacyDedup function, which keeps the user's own deduplication table up to date.

package exec

import (
	"context"
	"fmt"
	"slices"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// askLegacyDedup reports whether the user's deduplication table has e. If the table lacks e, the user's
// function adds it.
func (x *Executor[TTx]) askLegacyDedup(ctx context.Context, e *partition.Entry,
	tx TTx) (known bool, err error) {
	if x.legacyDedup == nil || e.Another() {
		return false, nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("call the LegacyDedup function for %s: %w", e.Name(), err)
		}
	}()
	m, id := copyOf(e), e.Given
	return runLimited(ctx, x, []*partition.Entry{e}, func() (bool, error) {
		return x.legacyDedup(skald.WithCause(ctx, m), tx, id, m)
	})
}

// finishKnown commits the mark of a message that the user's table already has.
func (x *Executor[TTx]) finishKnown(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	intake store.Intake) Result {
	r := x.finish(ctx, e, unit, intake, Reply{})
	if r.What == decide.Handled {
		r.What = decide.Duplicate
	}
	return r
}

// rejectAfterDedup rejects e if there is a LegacyDedup function. It rolls back the rows of the handler. A
// second transaction repeats the intake and calls the function. It commits only if no entity and no step
// changed between the two transactions.
func (x *Executor[TTx]) rejectAfterDedup(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	intake store.Intake, verdict store.Effect) Result {
	was := unit.Found()
	_, _ = unit.Rollback(ctx)
	unit, err := x.db.Begin(ctx, intake)
	if err != nil {
		return x.intakeFailed(ctx, e, fmt.Errorf("take in %s to reject it: %w", e.Name(), err))
	}
	if now := unit.Found(); !slices.Equal(now.Locks, was.Locks) || now.Marks[0].Outcome != store.Fresh ||
		stepChanged(was, now) {
		x.releaseClaim(ctx, e, unit.Rollback)
		return Result{Entry: e, What: decide.Again, Err: fmt.Errorf("reject %s: %w", e.Name(), store.ErrLost)}
	}
	known, err := x.askLegacyDedup(ctx, e, unit.Tx())
	switch {
	case err != nil:
		return x.handlerFailed(ctx, e, unit, err)
	case known:
		return x.finishKnown(ctx, e, unit, intake)
	}
	// The intake wrote the mark and locked the entities.
	verdict.Mark, verdict.Answer, verdict.Locks = nil, verdict.Mark, nil
	if verdict.Step != nil {
		verdict.Step.From = []store.StepState{e.Step.State} // the intake changed it
	}
	if err = unit.Commit(ctx, verdict); err == nil {
		return Result{Entry: e, What: decide.Rejected}
	}
	return x.storeFailed(ctx, e, x.handlerFault(ctx, fmt.Errorf("reject %s: %w", e.Name(), err)))
}

// stepChanged reports whether the step changed between two intakes.
func stepChanged(was, now store.Found) bool {
	return len(was.Steps) > 0 && was.Steps[0].State != now.Steps[0].State
}
