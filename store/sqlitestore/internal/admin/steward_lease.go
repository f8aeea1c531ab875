package admin

import (
	"context"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// holdLease takes or renews a lease for ttl, and reports whether owner has it. If ttl is 0 or less, it
// releases the lease.
func (s *Steward) holdLease(ctx context.Context, what, owner string, ttl time.Duration) (ok bool, err error) {
	err = s.run.Alone(ctx, func(ctx context.Context, x *sqlexec.Session) error {
		if ttl <= 0 {
			_, err := x.Count(ctx, "Disown", what, owner)
			return err
		}
		n, err := x.Count(ctx, "Own", what, owner, sqlexec.Milliseconds(ttl))
		ok = n > 0
		return err
	})
	return ok && err == nil, sqlexec.Failed("take lease "+what, err)
}

// Keeps reads the retention that the last Maintain of any process applied.
func (s *Steward) Keeps(ctx context.Context) (store.Retention, error) {
	p, err := s.run.Prepare(ctx)
	if err != nil {
		return store.Retention{}, sqlexec.Failed("read retention", err)
	}
	var rows, marks, steps, sagas int64 // in milliseconds
	if err := p.Row(ctx, "Keeps").Scan(&rows, &marks, &steps, &sagas); err != nil {
		return store.Retention{}, sqlexec.Failed("read retention", err)
	}
	of := func(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
	return store.Retention{Outbox: of(rows), Marks: of(marks), Steps: of(steps), Sagas: of(sagas)}, nil
}
