package pgstore

import (
	"context"
	"time"

	"github.com/skald-go/skald/store"
)

// holdLease takes, renews or gives back the lease on what.
func (c *core) holdLease(ctx context.Context, what, owner string, ttl time.Duration) (mine bool, err error) {
	if ttl <= 0 {
		return false, c.short(ctx, "give back "+what, c.call("Disown", what, owner))
	}
	err = c.short(ctx, "take "+what, c.call("Own", what, owner, ttl.Microseconds()).into(&mine))
	return mine && err == nil, err
}

// keeps tells what retention Maintain last went by.
func (c *core) keeps(ctx context.Context) (store.Retention, error) {
	var rows, marks, steps, sagas float64
	err := c.short(ctx, "look at retention", c.call("Keeps").into(&rows, &marks, &steps, &sagas))
	return store.Retention{Outbox: seconds(rows), Marks: seconds(marks), Steps: seconds(steps), Sagas: seconds(sagas)}, err
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
