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

// askedBeside tells whether the table beside knows e, and has it noted there.
func (x *Executor[TTx]) askedBeside(ctx context.Context, e *partition.Entry, tx TTx) (known bool, err error) {
	if x.beside == nil || e.Another() {
		return false, nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("ask what is beside about %s: %w", e.Name(), err)
		}
	}()
	err = x.watched(ctx, e, func() (err error) {
		known, err = x.beside(skald.WithCause(ctx, e.Message), tx, e.Given, copyOf(e))
		return err
	})
	return known, err
}

// knownBeside commits that a message was finished by somebody else: the mark of the intake, and what the
// table has noted.
func (x *Executor[TTx]) knownBeside(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	intake store.Intake) Result {
	r := x.finish(ctx, e, unit, intake, Reply{})
	if r.What == decide.Handled {
		r.What = decide.Duplicate
	}
	return r
}

// rejectBeside is reject with a table beside. The handler's rows are undone; the second transaction takes in
// again, so that the table can be asked in it, and stands under the same condition: nothing that the intake
// locked has moved.
func (x *Executor[TTx]) rejectBeside(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	intake store.Intake, verdict store.Effect) Result {
	was := unit.Found()
	_, _ = unit.Rollback(ctx) // its rows are undone in any case
	unit, err := x.db.Begin(ctx, intake)
	if err != nil {
		return x.takeFailed(ctx, e, fmt.Errorf("take in %s to reject it: %w", e.Name(), err))
	}
	if now := unit.Found(); !slices.Equal(now.Locks, was.Locks) || now.Marks[0].Outcome != store.Fresh ||
		stepElse(was, now) {
		x.giveBack(ctx, e, unit.Rollback)
		return Result{Entry: e, What: decide.Again, Err: fmt.Errorf("reject %s: %w", e.Name(), store.ErrLost)}
	}
	known, err := x.askedBeside(ctx, e, unit.Tx())
	switch {
	case err != nil:
		return x.lentFailed(ctx, e, unit, err)
	case known:
		return x.knownBeside(ctx, e, unit, intake)
	}
	// the intake has the mark and the locks
	verdict.Mark, verdict.Answer, verdict.Locks = nil, verdict.Mark, nil
	if verdict.Step != nil {
		verdict.Step.From = []store.StepState{e.Step.State} // as the intake has made it
	}
	if err = unit.Commit(ctx, verdict); err == nil {
		return Result{Entry: e, What: decide.Rejected}
	}
	return x.storeFailed(ctx, e, x.lent(ctx, fmt.Errorf("reject %s: %w", e.Name(), err)))
}

// stepElse tells whether a step moved between two intakes.
func stepElse(was, now store.Found) bool {
	return len(was.Steps) > 0 && was.Steps[0].State != now.Steps[0].State
}
