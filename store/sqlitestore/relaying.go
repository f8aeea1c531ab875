package sqlitestore

import (
	"context"

	"github.com/skald-go/skald/store"
)

// Lease takes, renews and releases shards for a relay.
func (s *Store) Lease(ctx context.Context, ask store.LeaseRequest) (store.Leased, error) {
	return s.outbox.Lease(ctx, ask)
}

// Pull reads a page of the outbox rows in a window.
func (s *Store) Pull(ctx context.Context, w store.Window, limit int) (store.Page, error) {
	return s.outbox.Pull(ctx, w, limit)
}

// Deferred reads the rows that the broker refused, and the rows that wait for them.
func (s *Store) Deferred(ctx context.Context, q store.DeferredQuery) (store.Deferred, error) {
	return s.outbox.Deferred(ctx, q)
}

// Recover resets all shards of a moved file to the oldest stored row, because a restored file may use
// numbers twice. If audit is nil, Recover only checks whether the file moved.
func (s *Store) Recover(ctx context.Context, audit *store.Audit) (store.Recovered, error) {
	return s.outbox.Recover(ctx, audit)
}
