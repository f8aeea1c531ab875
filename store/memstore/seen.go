package memstore

import (
	"context"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore/internal/mark"
)

// Seen looks marks up.
func (s *Store) Seen(ctx context.Context, consumer string, ids []store.Identity) ([]store.Verdict, error) {
	out := make([]store.Verdict, len(ids))
	return out, s.enter(ctx, func() error {
		for i, id := range ids {
			out[i] = s.db.marks.Seen(mark.Key{Consumer: consumer, Identity: id}, s.db.now())
		}
		return nil
	})
}
