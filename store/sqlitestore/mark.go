package sqlitestore

import (
	"context"

	"github.com/skald-go/skald/store"
)

// Seen returns whether the consumer finished each message, from one snapshot.
func (s *Store) Seen(ctx context.Context, consumer string, ids []store.Identity) ([]store.Verdict, error) {
	return verdictsOf(ctx, s.run, consumer, ids)
}

// Reserve reserves an idempotency key for one caller.
func (s *Store) Reserve(ctx context.Context, r store.Reservation) (store.Reserved, error) {
	return reserve(ctx, s.run, r)
}
