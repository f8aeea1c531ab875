package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

var _ store.KindWatcher = (*Store)(nil)

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

// LeftKinds lists the types of messages that were left to another build, and wait.
func (s *Store) LeftKinds(ctx context.Context) (out []store.LeftKind, err error) {
	err = s.enter(ctx, func() error {
		all, last := map[kindKey]*store.LeftKind{}, map[kindKey]time.Time{}
		for _, k := range s.db.kept {
			if k.Dead != nil || !k.First.At.IsZero() || k.Last.At.IsZero() {
				continue
			}
			key := kindKey{k.Consumer, store.Kind{Topic: k.Message.Topic, Type: k.Message.Type}}
			if all[key] == nil {
				all[key] = &store.LeftKind{Consumer: key.consumer, Kind: key.Kind, Heard: -1}
				if at, noted := s.db.kinds[key]; noted {
					all[key].Heard = s.db.now().Sub(at)
				}
			}
			if all[key].Messages++; !k.Last.At.Before(last[key]) {
				all[key].Host, last[key] = k.Last.Host, k.Last.At
			}
		}
		for _, one := range all {
			out = append(out, *one)
		}
		return nil
	})
	slices.SortFunc(out, func(a, b store.LeftKind) int {
		return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Type, b.Type))
	})
	return out, err
}
