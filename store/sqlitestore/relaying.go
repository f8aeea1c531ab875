package sqlitestore

import (
	"context"

	"github.com/skald-go/skald/store"
)

// Lease takes, renews and gives back shards. A shard belongs to a live relay, so a renewal writes one row.
func (s *Store) Lease(ctx context.Context, ask store.Ask) (store.Leased, error) {
	return s.outbox.Lease(ctx, ask)
}

// Pull reads a page of a window.
func (s *Store) Pull(ctx context.Context, w store.Window, limit int) (store.Page, error) {
	return s.outbox.Pull(ctx, w, limit)
}

// Deferred reads rows that the broker refused, and those that wait after them.
func (s *Store) Deferred(ctx context.Context, q store.DeferredQuery) (store.Deferred, error) {
	return s.outbox.Deferred(ctx, q)
}

// Recover starts all shards at the oldest row that is kept: a file that went back has given numbers out
// twice.
func (s *Store) Recover(ctx context.Context, note *store.Audit) (store.Recovered, error) {
	return s.outbox.Recover(ctx, note)
}
