package sqlitestore

import (
	"context"

	"github.com/skald-go/skald/store"
)

// Lease takes, renews and releases shards. A renewal writes one row, because only one relay owns a shard.
func (s *Store) Lease(ctx context.Context, ask store.LeaseRequest) (store.Leased, error) {
	return s.outbox.Lease(ctx, ask)
}

// Pull reads a page of a window.
func (s *Store) Pull(ctx context.Context, w store.Window, limit int) (store.Page, error) {
	return s.outbox.Pull(ctx, w, limit)
}

// Deferred reads the rows that the broker refused, and the rows that wait for them.
func (s *Store) Deferred(ctx context.Context, q store.DeferredQuery) (store.Deferred, error) {
	return s.outbox.Deferred(ctx, q)
}

// Recover resets all shards to the oldest stored row, because a file that went back in time has used
// numbers twice.
func (s *Store) Recover(ctx context.Context, note *store.Audit) (store.Recovered, error) {
	return s.outbox.Recover(ctx, note)
}
