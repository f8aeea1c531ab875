package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// Limits on the wait for a row that a running step or another transaction locks. bulk first tries all sagas,
// and waits for each locked row only lockWaitFirst. Then it tries the locked sagas again, and waits for all
// of them together lockWaitLast.
const (
	lockWaitFirst = 250 * time.Millisecond
	lockWaitLast  = 5 * time.Second
)

const sagaTries = 10 // limits the attempts at a saga that an engine changes at the same time

// bulk changes sagas one after the other.
type bulk struct {
	db     SagaStore
	c      *SagaChange
	o      *Order
	done   *runChanges
	report *SagaReport
}

// changeAll changes the sagas. If one saga cannot be changed, changeAll adds it to the report and
// continues. An error means that the store is not available, or that ctx has ended.
func (b *bulk) changeAll(ctx context.Context, sagas []store.Saga) error {
	var busy []*store.Saga
	for i := range sagas {
		was := &sagas[i]
		switch left, err := b.changeOne(ctx, was, lockWaitFirst); {
		case errors.Is(err, store.ErrBusy):
			busy = append(busy, was)
		case err != nil:
			return b.failed(was, err)
		default:
			b.count(left)
		}
	}
	until := time.Now().Add(lockWaitLast)
	for _, was := range busy {
		left, err := b.changeOne(ctx, was, max(time.Until(until), lockWaitFirst))
		switch {
		case errors.Is(err, store.ErrBusy):
			left = new(lockedByOther(was))
		case err != nil:
			return b.failed(was, err)
		}
		b.count(left)
	}
	return nil
}

func (b *bulk) failed(was *store.Saga, err error) error {
	return fmt.Errorf("%s: %s %q, after %d others: %w", b.c, was.Name, was.Key, b.report.Done, err)
}

// count counts a saga that is changed, or skipped for the reason in skipped.
func (b *bulk) count(skipped *LeftSaga) {
	r := b.report
	if skipped == nil {
		r.Done++
	} else {
		r.Left = append(r.Left, *skipped)
	}
	progress(b.o, r.Done+len(r.Left), r.Selected)
}

// lockedByOther returns s as left because another transaction locks its row.
func lockedByOther(s *store.Saga) LeftSaga {
	return LeftSaga{Name: s.Name, Key: s.Key, Unneeded: true, Why: "one of its steps, or another " +
		"transaction, locks its row: repeat the command later"}
}

// changeOne changes a saga. If the saga stays unchanged, changeOne returns the reason. It returns
// store.ErrBusy if another transaction locked the row for the whole wait.
func (b *bulk) changeOne(ctx context.Context, was *store.Saga, wait time.Duration) (skipped *LeftSaga,
	err error) {
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
		// Read the changes of the run after the saga. If another process that continues the run changes the
		// saga after that, the version of the saga differs, and the write fails.
		if err := b.done.read(ctx); err != nil {
			return nil, err
		}
		if b.done.ids[r.row.ID] {
			return first("another process that continues the run has changed it")
		}
		applied, skipped, err := b.write(ctx, &r, wait)
		if applied || skipped != nil || err != nil {
			return skipped, err
		}
	}
	return first("an engine changes it all the time: try again")
}

// write writes the change of a saga. If it returns applied=false, and neither skipped nor an error, another
// process has changed the saga since write read it.
func (b *bulk) write(ctx context.Context, r *SagaRead, wait time.Duration) (applied bool, skipped *LeftSaga,
	err error) {
	s := &r.row
	wrong := func(err error) *LeftSaga { return &LeftSaga{Name: s.Name, Key: s.Key, Why: err.Error()} }
	if err := r.readState(); err != nil {
		return false, wrong(err), nil
	}
	next, now, skipped := b.c.try(s, r.state, r.plan, b.o)
	if skipped != nil {
		return false, skipped, nil
	}
	m, err := sagarow.MoveTo(*s, next, now)
	if err != nil {
		return false, wrong(err), nil
	}
	m = sagarow.LeaveToOthers(sagarow.Released(m, next, now, len(r.plan.Pending(next)) > 0))
	m.Wait = wait
	audit := auditOf(b.o, b.c.String(), s.Name, store.Identity{Source: s.ID, ID: s.Key})
	audit.Run = b.o.Run
	applied, err = applyEffect(ctx, b.db, store.Effect{Saga: &m, Audit: audit})
	if err == nil || ctx.Err() != nil || store.Incurable(err) || b.db.Outage(err) {
		return applied, nil, err
	}
	return false, wrong(err), nil // the store refused this saga, and may accept others
}
