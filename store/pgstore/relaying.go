package pgstore

import (
	"context"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/query"
)

// Lease takes, renews and releases shards of the outbox for a relay: one round trip.
func (c *core) Lease(ctx context.Context, ask store.LeaseRequest) (store.Leased, error) {
	return c.outbox.Lease(ctx, ask, query.LeaseOptions{})
}

// Pull reads a page of the outbox rows in a window: one round trip.
func (c *core) Pull(ctx context.Context, w store.Window, limit int) (store.Page, error) {
	return c.outbox.Pull(ctx, w, limit)
}

// Deferred reads the rows that the broker refused, and the rows that wait for them.
func (c *core) Deferred(ctx context.Context, q store.DeferredQuery) (store.Deferred, error) {
	return c.outbox.Deferred(ctx, q)
}
