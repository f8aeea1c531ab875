package inbox

import (
	"context"
	"fmt"
	"slices"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// A Known function asks a table of your own whether a message was handled, and notes that it is, in one
// statement that waits for a rival: INSERT … ON CONFLICT DO NOTHING, and known is that nothing was inserted.
// To look first and note then lets two through. Id is what Options.Identity.Of made of the message.
type Known[TTx any] func(ctx context.Context, tx TTx, id store.Identity, m skald.Message) (known bool, err error)

// LegacyDedup keeps a table of your own up to date beside the marks, for as long as consumers that were
// written by hand share the group, or may take it back: known is asked in each message's transaction, before
// its handler. What your table knows counts as a duplicate: it is marked, and not handled. What it does not
// know is noted there and marked, in one commit with its effect or its rejection; a message that fails is
// noted in neither. An error of known is one of the handler. Messages are taken one by one meanwhile,
// whatever Options.Batch. Tell it before Run.  A message that was admitted out of quarantine although
// another has its identity is handled without asking.
func (in *Inbox[TTx]) LegacyDedup(known Known[TTx]) { in.beside = known }

// askedBeside tells whether the table beside knows e, and has it noted there.
func (in *Inbox[TTx]) askedBeside(ctx context.Context, e *partition.Entry, tx TTx) (known bool, err error) {
	if in.beside == nil || e.Another() {
		return false, nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("ask what is beside about %s: %w", e.ID, err)
		}
	}()
	defer failure.Recover(&err)
	return in.beside(skald.WithCause(ctx, e.Message), tx, e.Given, e.Message)
}

// knownBeside commits that a message was finished by somebody else: the mark of the intake, and what the
// table has noted.
func (in *Inbox[TTx]) knownBeside(ctx context.Context, e *partition.Entry, unit store.Unit[TTx], intake store.Intake) result {
	r := in.finish(ctx, e, unit, intake, Result{})
	if r.what == decide.Handled {
		r.what = decide.Duplicate
	}
	return r
}

// rejectBeside is reject with a table beside. The handler's rows are undone; the second transaction takes in
// again, so that the table can be asked in it, and stands under the same condition: nothing that the intake
// locked has moved.
func (in *Inbox[TTx]) rejectBeside(ctx context.Context, e *partition.Entry, unit store.Unit[TTx], intake store.Intake, verdict store.Effect) result {
	was := unit.Found()
	_, _ = unit.Rollback(ctx) // its rows are undone in any case
	unit, err := in.db.Begin(ctx, intake)
	if err != nil {
		return in.storeFailed(ctx, e, fmt.Errorf("take in %s to reject it: %w", e.ID, err))
	}
	if now := unit.Found(); !slices.Equal(now.Locks, was.Locks) || now.Marks[0].Outcome != store.Fresh || stepElse(was, now) {
		in.giveBack(ctx, e, unit.Rollback)
		return result{entry: e, what: decide.Again, err: fmt.Errorf("reject %s: %w", e.ID, store.ErrLost)}
	}
	known, err := in.askedBeside(ctx, e, unit.Tx())
	switch {
	case err != nil:
		return in.lentFailed(ctx, e, unit, err)
	case known:
		return in.knownBeside(ctx, e, unit, intake)
	}
	// the intake has the mark and the locks
	verdict.Mark, verdict.Answer, verdict.Locks = nil, verdict.Mark, nil
	if verdict.Step != nil {
		verdict.Step.From = []store.StepState{e.Step.State} // as the intake has made it
	}
	if err = unit.Commit(ctx, verdict); err == nil {
		return result{entry: e, what: decide.Rejected}
	}
	return in.storeFailed(ctx, e, fmt.Errorf("reject %s: %w", e.ID, err))
}

// stoodElse tells whether a step moved between two intakes.
func stepElse(was, now store.Found) bool {
	return len(was.Steps) > 0 && was.Steps[0].State != now.Steps[0].State
}
