package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

// Claim takes parked messages that are due.
func (s *Store) Claim(ctx context.Context, consumer, life string, most store.Portion, lease time.Duration, not ...store.Kind) (c store.Claimed, err error) {
	err = s.enter(ctx, func() error {
		d := s.db
		now, keys, along := d.now(), 0, 0
		left := func(k keptRow) bool {
			return slices.Contains(not, store.Kind{Topic: k.Message.Topic, Type: k.Message.Type})
		}
		for _, k := range d.keptOf(store.Sought{Consumer: consumer}) {
			if keys == most.Keys || !k.claimable() || left(k) || k.due.After(now) {
				continue
			}
			with := d.along(k, min(most.Along, most.All-along), left)
			keys, along = keys+1, along+len(with)
			c.Parked = append(c.Parked, d.claim(k, life, with, now, lease))
			for _, w := range with {
				c.Parked = append(c.Parked, w.out(now))
			}
		}
		slices.SortFunc(c.Parked, func(a, b store.Parked) int { return int(a.Place - b.Place) })
		if keys == most.Keys {
			return nil
		}
		for _, k := range d.keptOf(store.Sought{Consumer: consumer}) {
			if in := k.due.Sub(now); k.claimable() && !left(k) && (c.Next == 0 || in < c.Next) {
				c.Next = in
			}
		}
		return nil
	})
	return c, err
}

// claim notes who has k in hand, and counts for those that were read along with it the last time, if that had no answer.
func (d *database) claim(k keptRow, life string, with []keptRow, now time.Time, lease time.Duration) store.Parked {
	for _, w := range d.behindOf(k.turn()) {
		if k.Claims > 0 && w.Place > k.Place && w.Place <= k.along {
			w.Claims++
			d.kept[w.id()] = w
		}
	}
	k.due, k.along = now.Add(lease), 0
	k.Claims, k.Life = k.Claims+1, life
	if len(with) > 0 {
		k.along = with[len(with)-1].Place
	}
	d.kept[k.id()] = k
	return k.out(now)
}

// along is what is read along with k: at most so many, up to the first that is to be claimed by itself.
func (d *database) along(k keptRow, most int, left func(keptRow) bool) (out []keptRow) {
	plain := func(k keptRow) bool { return k.Dead == nil && k.Call == nil && k.Claims == 0 && k.Kills == 0 }
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
