package steward

import (
	"context"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/column"
)

// holdLease takes, renews or gives back the lease on what.
func (c *Steward) holdLease(ctx context.Context, what, owner string, ttl time.Duration) (mine bool, err error) {
	if ttl <= 0 {
		return false, c.pg.Short(ctx, "give back "+what, c.pg.Call("Disown", what, owner))
	}
	err = c.pg.Short(ctx, "take "+what, c.pg.Call("Own", what, owner, ttl.Microseconds()).Into(&mine))
	return mine && err == nil, err
}

// Keeps tells what retention Maintain last went by.
func (c *Steward) Keeps(ctx context.Context) (store.Retention, error) {
	var rows, marks, steps, sagas float64
	err := c.pg.Short(ctx, "look at retention", c.pg.Call("Keeps").Into(&rows, &marks, &steps, &sagas))
	return store.Retention{Outbox: column.Seconds(rows), Marks: column.Seconds(marks), Steps: column.Seconds(steps), Sagas: column.Seconds(sagas)}, err
}
