package demo

import (
	"context"

	"github.com/skald-go/skald/store"
)

// checked is a driver that checks for a mark, commits the handler's transaction, and only then writes the
// mark. Many tutorials do the same. A duplicate that arrives before the mark is written is handled again.
type checked[TTx any] struct{ store.Driver[TTx] }

func (d *checked[TTx]) Begin(ctx context.Context, in store.Intake) (store.Unit[TTx], error) {
	if len(in.Marks) == 1 && in.Marks[0].Source == "" {
		return d.Driver.Begin(ctx, in) // a key of once.Do or of an HTTP endpoint, not a message
	}
	marks := in.Marks
	in.Marks = nil
	found := make([]store.Verdict, len(marks))
	for i, m := range marks {
		seen, err := d.Seen(ctx, m.Consumer, []store.Identity{m.Identity})
		if err != nil {
			return nil, err
		}
		found[i] = seen[0]
	}
	u, err := d.Driver.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return &checkedUnit[TTx]{Unit: u, db: d.Driver, marks: marks, found: found}, nil
}

type checkedUnit[TTx any] struct {
	store.Unit[TTx]
	db    store.Driver[TTx]
	marks []store.Mark
	found []store.Verdict
}

func (u *checkedUnit[TTx]) Found() store.Found {
	f := u.Unit.Found()
	f.Marks = u.found
	f.Follows = false // the marks are written after the commit
	return f
}

// Commit commits the transaction, then writes the marks. If writing fails, the message is handled again.
func (u *checkedUnit[TTx]) Commit(ctx context.Context, es ...store.Effect) error {
	if err := u.Unit.Commit(ctx, es...); err != nil {
		return err
	}
	for i := range u.marks {
		if _, err := u.db.Apply(ctx, store.Effect{Mark: &u.marks[i]}); err != nil {
			return err
		}
	}
	return nil
}
