package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

type kindKey struct {
	consumer string
	store.Kind
}

// Kinds notes what a process of a consumer handles, and tells what others do.
func (s *Store) Kinds(ctx context.Context, consumer string, own []store.Kind, forget time.Duration) (out []store.Kind, err error) {
	err = s.enter(ctx, func() error {
		now := s.db.now()
		for key, at := range s.db.kinds {
			switch {
			case key.consumer != consumer:
			case forget > 0 && at.Before(now.Add(-forget)):
				delete(s.db.kinds, key)
			default:
				out = append(out, key.Kind)
			}
		}
		for _, k := range own {
			s.db.kinds[kindKey{consumer, k}] = now
		}
		return nil
	})
	slices.SortFunc(out, func(a, b store.Kind) int { return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Type, b.Type)) })
	return out, err
}
