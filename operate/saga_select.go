package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// Limits on the wait for a row that a running step or another transaction holds. The first attempt waits
// briefly, so that no other saga waits. The second one comes after the others, and heldLong limits it for
// all rows together.
const (
	heldBrief = 250 * time.Millisecond
	heldLong  = 5 * time.Second
)

const sagaTries = 10 // attempts while an engine writes at the same time

// bulk changes sagas one after the other.
type bulk struct {
	db     SagaStore
	c      *SagaChange
	o      *Order
	done   *runChanges
	report *SagaReport
}

// all changes the sagas. A fault of one saga leaves only that saga. An error is one of the store, or of
// ctx.
func (b *bulk) all(ctx context.Context, all []store.Saga) error {
	var busy []*store.Saga
	for i := range all {
		was := &all[i]
		switch left, err := b.one(ctx, was, heldBrief); {
		case errors.Is(err, store.ErrBusy):
			busy = append(busy, was)
		case err != nil:
			return b.failed(was, err)
		default:
			b.settled(left)
		}
	}
	until := time.Now().Add(heldLong)
	for _, was := range busy {
		left, err := b.one(ctx, was, max(time.Until(until), heldBrief))
		switch {
		case errors.Is(err, store.ErrBusy):
			left = new(lockedByOther(was))
		case err != nil:
			return b.failed(was, err)
		}
		b.settled(left)
	}
	return nil
}

func (b *bulk) failed(was *store.Saga, err error) error {
	return fmt.Errorf("%s: %s %q, after %d others: %w", b.c, was.Name, was.Key, b.report.Done, err)
}

// settled counts a saga that is changed or left.
func (b *bulk) settled(left *LeftSaga) {
	r := b.report
	if left == nil {
		r.Done++
	} else {
		r.Left = append(r.Left, *left)
	}
	progress(b.o, r.Done+len(r.Left), r.Selected)
}

// lockedByOther returns s as left because another transaction holds its row.
func lockedByOther(s *store.Saga) LeftSaga {
	return LeftSaga{Name: s.Name, Key: s.Key, Unneeded: true, Why: "one of its steps, or another " +
		"transaction, locks its row: repeat the command later"}
}

// one changes a saga. It returns the reason if the saga was left; else nil. store.ErrBusy means that
// another transaction held its row for the whole wait.
func (b *bulk) one(ctx context.Context, was *store.Saga, wait time.Duration) (left *LeftSaga, err error) {
	first := func(why string) (*LeftSaga, error) {
		return &LeftSaga{Name: was.Name, Key: was.Key, Why: why, Unneeded: true}, nil
	}
	for range sagaTries {
		r, err := readRow(ctx, b.db, was.Name, was.Key)
		switch {
		case errors.As(err, new(*NoMatchError)):
			return first("it ended, and was deleted")
		case err != nil:
			return nil, err
		case r.row.ID != was.ID:
			return first("it ended, and another saga was started with its key")
		}
		// This read comes after that of the saga. A later change, by another process that continues the
		// run, breaks the guard of the version.
		if err := b.done.read(ctx); err != nil {
			return nil, err
		}
		if b.done.ids[r.row.ID] {
			return first("another process that continues the run has changed it")
		}
		stands, left, err := b.write(ctx, &r, wait)
		if stands || left != nil || err != nil {
			return left, err
		}
	}
	return first("an engine changes it all the time: try again")
}

// write applies the change to a saga as it was read. Neither stands nor left means that the saga changed
// meanwhile.
func (b *bulk) write(ctx context.Context, r *SagaRead, wait time.Duration) (stands bool, left *LeftSaga,
	err error) {
	s := &r.row
	wrong := func(err error) *LeftSaga { return &LeftSaga{Name: s.Name, Key: s.Key, Why: err.Error()} }
	if err := r.readState(); err != nil {
		return false, wrong(err), nil
	}
	next, now, left := b.c.try(s, r.state, r.plan, b.o)
	if left != nil {
		return false, left, nil
	}
	m, err := sagarow.MoveTo(*s, next, now)
	if err != nil {
		return false, wrong(err), nil
	}
	m = sagarow.LeaveToOthers(sagarow.Released(m, next, now, len(r.plan.Pending(next)) > 0))
	m.Wait = wait
	audit := auditOf(b.o, b.c.String(), s.Name, store.Identity{Source: s.ID, ID: s.Key})
	audit.Run = b.o.Run
	stands, err = applyEffect(ctx, b.db, store.Effect{Saga: &m, Audit: audit})
	if err == nil || ctx.Err() != nil || store.Incurable(err) || b.db.Outage(err) {
		return stands, nil, err
	}
	return false, wrong(err), nil // the store refuses this saga only
}
