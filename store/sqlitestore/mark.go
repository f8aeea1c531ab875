package sqlitestore

import (
	"context"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/mark"
)

// Seen looks marks up, all as of one moment.
func (s *Store) Seen(ctx context.Context, consumer string, ids []store.Identity) ([]store.Verdict, error) {
	return mark.Seen(ctx, s.run, consumer, ids)
}

// Reserve takes a key by lease.
func (s *Store) Reserve(ctx context.Context, r store.Reservation) (store.Reserved, error) {
	return mark.Reserve(ctx, s.run, r)
}
