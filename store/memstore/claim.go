package memstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/weight"
	"github.com/skald-go/skald/store"
)

// Claim takes due work.
func (s *Store) Claim(ctx context.Context, w store.Want) (store.Claimed, error) {
	if w.Work != store.Parkeds {
		return store.Claimed{}, fmt.Errorf("claim: work of kind %d is not known to this build", w.Work)
	}
	return s.claim(ctx, w.Consumer, w.Session, w.ClaimSize, w.Lease, w.Not...)
}

// claim takes parked messages that are due.
func (s *Store) claim(ctx context.Context, consumer, sessionID string, most store.ClaimSize,
	lease time.Duration, not ...store.Kind) (c store.Claimed, err error) {
	err = s.enter(ctx, func() error {
		d := s.db
		now, keys, along, bytes := d.now(), 0, 0, 0
		left := func(k keptRow) bool {
			return slices.Contains(not, store.Kind{Topic: k.Message.Topic, Type: k.Message.Type})
		}
		for _, k := range d.keptOf(store.Sought{Consumer: consumer}) {
			if keys == most.Keys || !k.claimable() || left(k) || k.due.After(now) {
				continue
			}
			size := weight.Bytes(&k.Message)
			if keys > 0 && bytes+size > store.PageBytes {
				break
			}
			with := d.along(k, min(most.Prefetch, most.PrefetchAll-along), left)
			for i := range with {
				if bytes+size+weight.Bytes(&with[i].Message) > store.PageBytes {
					with = with[:i]
					break
				}
				size += weight.Bytes(&with[i].Message)
			}
			bytes += size
			keys, along = keys+1, along+len(with)
			c.Parked = append(c.Parked, d.claim(k, sessionID, with, now, lease))
			for _, w := range with {
				c.Parked = append(c.Parked, claimed(w, now))
			}
		}
		slices.SortFunc(c.Parked, func(a, b store.Parked) int { return int(a.Place - b.Place) })
		if keys == most.Keys {
			return nil
		}
		for _, k := range d.keptOf(store.Sought{Consumer: consumer}) {
			if in := max(k.due.Sub(now), 1); k.claimable() && !left(k) && (c.Next == 0 || in < c.Next) {
				c.Next = in
			}
		}
		return nil
	})
	return c, err
}

// claim notes who has k in hand, and counts for those that were read along with it the last time, if that had
// no answer.
func (d *database) claim(k keptRow, sessionID string, with []keptRow, now time.Time,
	lease time.Duration) store.Parked {
	for _, w := range d.behindOf(k.turn()) {
		if k.Claims > 0 && w.Place > k.Place && w.Place <= k.along {
			w.Claims++
			d.kept[w.id()] = w
		}
	}
	k.due, k.along = now.Add(lease), 0
	k.Claims, k.Session = k.Claims+1, sessionID
	if len(with) > 0 {
		k.along = with[len(with)-1].Place
	}
	d.kept[k.id()] = k
	return claimed(k, now)
}

// claimed is k for whoever has it in hand: kept as it is, it is due at once.
func claimed(k keptRow, now time.Time) store.Parked {
	out := k.out(now)
	out.Due = 0
	return out
}

// along is what is read along with k: at most so many, up to the first that is to be claimed by itself.
func (d *database) along(k keptRow, most int, left func(keptRow) bool) (out []keptRow) {
	plain := func(k keptRow) bool {
		return k.Dead == nil && k.Call == nil && k.Claims == 0 && k.CrashCount == 0
	}
	if most <= 0 || !plain(k) {
		return nil
	}
	for _, w := range d.behindOf(k.turn()) {
		if w.Place <= k.Place {
			continue
		}
		if len(out) == most || !plain(w) || left(w) {
			break
		}
		out = append(out, w)
	}
	return out
}

// stillDead guards that it is the dead letter that died then; of none, where it is zero.
func (k *keptRow) stillDead(died time.Time) error {
	if died.IsZero() || k.Dead != nil && k.Dead.At.Equal(died) {
		return nil
	}
	return fmt.Errorf("%s is not the dead letter that it was: %w", k.ID, store.ErrLost)
}
