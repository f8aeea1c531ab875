package pgstore

import (
	"context"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/query"
)

// Lease takes, renews and gives back shards: one round trip. A shard belongs to a live relay, so a renewal
// writes one row.
func (c *core) Lease(ctx context.Context, ask store.Ask) (store.Leased, error) {
	return c.outbox.Lease(ctx, ask, query.Besides{})
}

// Pull reads a page of a window: one round trip.
func (c *core) Pull(ctx context.Context, w store.Window, limit int) (store.Page, error) {
	return c.outbox.Pull(ctx, w, limit)
}

// Deferred reads rows that the broker refused, and those that wait after them.
func (c *core) Deferred(ctx context.Context, q store.DeferredQuery) (store.Deferred, error) {
	return c.outbox.Deferred(ctx, q)
}
