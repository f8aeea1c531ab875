package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/store"
)

// maintain deletes rows that are past their retention and published in every shard.
func (s *Store) maintain(ctx context.Context, keep store.Retention) (done store.Maintained, err error) {
	if keep, err = retention.OrDefaults(keep); err != nil {
		return done, fmt.Errorf("maintain: %w", err)
	}
	err = s.enter(ctx, func() error {
		d := s.db
		d.keeps = keep
		now := d.now()
		rows, marks := now.Add(-keep.Outbox), now.Add(-keep.Marks)
		d.quarantine.Forget(marks)
		d.reservations.Forget(now.Add(-24 * time.Hour))
		steps := d.steps.Forget(now.Add(-keep.Steps), d.kept.Find, d.lockedStep)
		done = store.Maintained{Sagas: d.sagas.Forget(now.Add(-keep.Sagas), d.lockedSaga), Steps: steps,
			Rows: d.outbox.Forget(rows), Marks: d.marks.Forget(marks, now)}
		return nil
	})
	return done, err
}

// forecast counts the rows that maintain would delete.
func (s *Store) forecast(ctx context.Context, keep store.Retention) (out store.Maintained, err error) {
	if keep, err = retention.OrDefaults(keep); err != nil {
		return out, fmt.Errorf("forecast: %w", err)
	}
	err = s.enter(ctx, func() error {
		d, now := s.db, s.db.now()
		rows, marks, steps := now.Add(-keep.Outbox), now.Add(-keep.Marks), now.Add(-keep.Steps)
		out.Rows = d.outbox.Leaving(rows)
		out.Marks = d.marks.Leaving(marks, now)
		out.Steps = d.steps.Leaving(steps, d.kept.Find, d.lockedStep)
		out.Sagas = d.sagas.Leaving(now.Add(-keep.Sagas))
		return nil
	})
	return out, err
}

// lease has the owner of a lease and its end.
type lease struct {
	owner string
	until time.Time
}

// holdLease takes or renews a lease for ttl, and reports whether owner has it. If ttl is 0 or less, it
// releases the lease.
func (s *Store) holdLease(ctx context.Context, what, owner string, ttl time.Duration) (ok bool, err error) {
	err = s.enter(ctx, func() error {
		d := s.db
		has, now := d.leases[what], d.now()
		switch {
		case has.owner != owner && has.until.After(now):
		case ttl <= 0:
			if has.owner == owner {
				delete(d.leases, what)
			}
		default:
			d.leases[what], ok = lease{owner, now.Add(ttl)}, true
		}
		return nil
	})
	return ok, err
}
