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

// beat writes what a process of a consumer says of itself, and answers with the types that were noted before.
func (d *database) beat(consumer string, b store.Beat) (out []store.Kind) {
	now := d.now()
	for key, at := range d.kinds {
		switch {
		case key.consumer != consumer:
		case b.Forget > 0 && at.Before(now.Add(-b.Forget)):
			delete(d.kinds, key)
		default:
			out = append(out, key.Kind)
		}
	}
	for _, k := range b.Own {
		d.kinds[kindKey{consumer, k}] = now
	}
	if len(b.Own) > 0 {
		d.heard(consumer, now, b.Progress)
	}
	slices.SortFunc(out,
		func(a, b store.Kind) int {
			return cmp.Or(cmp.Compare(a.Topic, b.Topic),
				cmp.Compare(a.Type, b.Type))
		})
	return out
}

// A consumerRow is when a consumer was last heard of, and when it last got on.
type consumerRow struct{ heard, progress time.Time }

func (d *database) heard(consumer string, now time.Time, progress bool) {
	c, known := d.consumers[consumer]
	if c.heard = now; progress || !known {
		c.progress = now
	}
	d.consumers[consumer] = c
}

// leftKinds lists the types of messages that were left to another build, and wait.
func (s *Store) leftKinds(ctx context.Context) (out []store.LeftKind, err error) {
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
		return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Topic, b.Topic),
			cmp.Compare(a.Type, b.Type))
	})
	return out, err
}
