package memstore

import (
	"slices"
	"time"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

// Claim takes parked messages that are due.
func (ms *messages) Claim(w store.Want, now time.Time) (c store.Claimed) {
	keys, along, bytes := 0, 0, 0
	left := func(k row) bool {
		return slices.Contains(w.Not, store.Kind{Topic: k.Message.Topic, Type: k.Message.Type})
	}
	var due []row
	for _, k := range ms.rows {
		if k.Consumer == w.Consumer && k.claimable() && !left(k) && !k.due.After(now) {
			due = append(due, k)
		}
	}
	slices.SortFunc(due, byPlace)
	for _, k := range due {
		if keys == w.Keys {
			break
		}
		size := column.MessageBytes(&k.Message)
		if keys > 0 && bytes+size > store.PageBytes {
			break
		}
		with := ms.along(k, min(w.Prefetch, w.PrefetchAll-along), left)
		for i := range with {
			if bytes+size+column.MessageBytes(&with[i].Message) > store.PageBytes {
				with = with[:i]
				break
			}
			size += column.MessageBytes(&with[i].Message)
		}
		bytes += size
		keys, along = keys+1, along+len(with)
		c.Parked = append(c.Parked, ms.claim(k, w.Session, with, now, w.Lease))
		for _, w := range with {
			c.Parked = append(c.Parked, claimed(w, now))
		}
	}
	slices.SortFunc(c.Parked, func(a, b store.Parked) int { return int(a.Place - b.Place) })
	if keys == w.Keys {
		return c
	}
	c.Next = -1
	for _, k := range ms.rows {
		if k.Consumer == w.Consumer && k.claimable() && !left(k) {
			c.Next = soonest(c.Next, max(k.due.Sub(now), 1))
		}
	}
	return c
}

// claim notes who has k in hand, and counts for those that were read along with it the last time, if that had
// no answer.
func (ms *messages) claim(k row, session string, with []row, now time.Time,
	lease time.Duration) store.Parked {
	for _, w := range ms.behind(k.turn()) {
		if k.Claims > 0 && w.Place > k.Place && w.Place <= k.along {
			w.Claims++
			ms.rows[w.id()] = w
		}
	}
	k.due, k.along = now.Add(lease), 0
	k.Claims, k.Session = k.Claims+1, session
	if len(with) > 0 {
		k.along = with[len(with)-1].Place
	}
	ms.rows[k.id()] = k
	return claimed(k, now)
}

// claimed is k for whoever has it in hand: kept as it is, it is due at once.
func claimed(k row, now time.Time) store.Parked {
	out := k.out(now)
	out.Due = 0
	return out
}

// along is what is read along with k: at most so many, up to the first that is to be claimed by itself.
func (ms *messages) along(k row, most int, left func(row) bool) (out []row) {
	plain := func(k row) bool {
		return k.Dead == nil && k.Call == nil && k.Claims == 0 && k.CrashCount == 0
	}
	if most <= 0 || !plain(k) {
		return nil
	}
	for _, w := range ms.behind(k.turn()) {
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

// Unclaim makes due what a session of a consumer has in hand.
func (ms *messages) Unclaim(consumer, session string, now time.Time) {
	for id, k := range ms.rows {
		if session != "" && k.Consumer == consumer && k.Session == session && k.due.After(now) {
			k.due = now
			ms.rows[id] = k
		}
	}
}
