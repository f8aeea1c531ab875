package memstore

import (
	"slices"
	"time"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

// Claim claims due parked messages, and prefetches the messages after them.
func (ms *messages) Claim(w store.ClaimRequest, now time.Time) (c store.Claimed) {
	keys, prefetched, bytes := 0, 0, 0
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
		with := ms.prefetchable(k, min(w.Prefetch, w.PrefetchAll-prefetched), left)
		for i := range with {
			if bytes+size+column.MessageBytes(&with[i].Message) > store.PageBytes {
				with = with[:i]
				break
			}
			size += column.MessageBytes(&with[i].Message)
		}
		bytes += size
		keys, prefetched = keys+1, prefetched+len(with)
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

// claim records the session that claims k. If the process of the last claim was lost, claim also counts that
// claim for the messages that it prefetched.
func (ms *messages) claim(k row, session string, with []row, now time.Time,
	lease time.Duration) store.Parked {
	for _, w := range ms.blockers(k.keyLock()) {
		if k.Claims > 0 && w.Place > k.Place && w.Place <= k.prefetchedTo {
			w.Claims++
			ms.rows[w.id()] = w
		}
	}
	k.due, k.prefetchedTo = now.Add(lease), 0
	k.Claims, k.Session = k.Claims+1, session
	if len(with) > 0 {
		k.prefetchedTo = with[len(with)-1].Place
	}
	ms.rows[k.id()] = k
	return claimed(k, now)
}

// claimed returns a copy of k for the session that claimed k. The Due of the copy is 0.
func claimed(k row, now time.Time) store.Parked {
	out := k.copied(now)
	out.Due = 0
	return out
}

// prefetchable returns the messages to prefetch with k, at most limit messages. It stops before the first
// message that must be claimed alone.
func (ms *messages) prefetchable(k row, limit int, left func(row) bool) (out []row) {
	plain := func(k row) bool {
		return k.Dead == nil && k.Call == nil && k.Claims == 0 && k.CrashCount == 0
	}
	if limit <= 0 || !plain(k) {
		return nil
	}
	for _, w := range ms.blockers(k.keyLock()) {
		if w.Place <= k.Place {
			continue
		}
		if len(out) == limit || !plain(w) || left(w) {
			break
		}
		out = append(out, w)
	}
	return out
}

// Unclaim makes all messages due that a session of a consumer has in progress.
func (ms *messages) Unclaim(consumer, session string, now time.Time) {
	for id, k := range ms.rows {
		if session != "" && k.Consumer == consumer && k.Session == session && k.due.After(now) {
			k.due = now
			ms.rows[id] = k
		}
	}
}
