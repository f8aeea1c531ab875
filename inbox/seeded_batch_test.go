package inbox_test

import (
	"context"
	"testing"

	"github.com/skald-go/skald/internal/seeded"
	"github.com/skald-go/skald/store"
)

// Bugs of transactions that several messages share.
const (
	noUndo     = "a rejection keeps its writes"
	blindSteps = "a batch takes each step"
)

// The tests of batches find each seeded bug.
func TestSeededBugsOfBatches(t *testing.T) {
	for _, c := range []struct{ bug, finds, prints string }{
		{noUndo, "^TestRejectionsRepeatNoNeighbour$/SQLite", `the effects are`},
		{blindSteps, "^TestStepsShareTransactions$", `200 marks, kept`},
	} {
		t.Run(c.bug, func(t *testing.T) {
			t.Parallel()
			seeded.Find(t, c.bug, c.finds, c.prints)
		})
	}
}

// batchBugs wraps db with the seeded bug of the process, if there is one.
func batchBugs[TTx any](db store.Driver[TTx]) store.Driver[TTx] {
	switch seeded.Bug() {
	case noUndo, blindSteps:
		return wrongBatches[TTx]{db}
	}
	return db
}

type wrongBatches[TTx any] struct{ store.Driver[TTx] }

func (d wrongBatches[TTx]) Begin(ctx context.Context, in store.Intake) (store.Unit[TTx], error) {
	u, err := d.Driver.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return wrongBatch[TTx]{u}, nil
}

type wrongBatch[TTx any] struct{ store.Unit[TTx] }

func (u wrongBatch[TTx]) Undo(ctx context.Context) error {
	if seeded.Bug() == noUndo {
		return nil
	}
	return u.Unit.Undo(ctx)
}

func (u wrongBatch[TTx]) Found() store.Found {
	f := u.Unit.Found()
	if seeded.Bug() == blindSteps {
		f.Steps = make([]store.Step, len(f.Steps))
	}
	return f
}
