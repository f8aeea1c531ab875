package admin

import (
	"context"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// holdLease takes or renews a lease for ttl, and reports whether owner has it. If ttl is 0 or less, it
// releases the lease.
func (s *Steward) holdLease(ctx context.Context, what, owner string,
	ttl time.Duration) (ok bool, err error) {
	if ttl <= 0 {
		return false, s.pg.Short(ctx, "give back "+what, s.pg.Call("Disown", what, owner))
	}
	err = s.pg.Short(ctx, "take "+what, s.pg.Call("Own", what, owner, ttl.Microseconds()).Into(&ok))
	return ok && err == nil, err
}

// Keeps reads the retention that the last Maintain of any process applied.
func (s *Steward) Keeps(ctx context.Context) (store.Retention, error) {
	var rows, marks, steps, sagas float64
	err := s.pg.Short(ctx, "read retention", s.pg.Call("Keeps").Into(&rows, &marks, &steps, &sagas))
	return store.Retention{Outbox: sqlexec.Seconds(rows), Marks: sqlexec.Seconds(marks),
		Steps: sqlexec.Seconds(steps), Sagas: sqlexec.Seconds(sagas)}, err
}
