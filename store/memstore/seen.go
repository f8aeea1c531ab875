package memstore

import (
	"context"

	"github.com/skald-go/skald/store"
)

// Seen looks marks up.
func (s *Store) Seen(ctx context.Context, consumer string, ids []store.Identity) ([]store.Verdict, error) {
	out := make([]store.Verdict, len(ids))
	return out, s.enter(ctx, func() error {
		for i, id := range ids {
			if m := s.db.marks[markKey{consumer, id}]; !s.db.expired(m) {
				out[i] = m.verdict(s.db.now())
			}
		}
		return nil
	})
}
