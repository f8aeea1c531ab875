package memstore

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

// List lists messages. If the limit Scan ended the list, last is the last examined place, otherwise 0.
func (ms *messages) List(what store.ParkedQuery, limit int, now time.Time) (out []store.Parked, last int64) {
	for i, k := range ms.sought(what) {
		if len(out) == limit {
			last = 0
			break
		}
		if what.Scan > 0 && i >= what.Scan {
			break
		}
		if what.Scan > 0 && i == what.Scan-1 {
			last = k.Place
		}
		p := k.copied(now)
		if !column.KeptMatches(&what, &p) {
			continue
		}
		if what.Bare {
			p.Message.Data, p.Message.Headers = nil, nil
		}
		out = append(out, p)
	}
	return out, last
}

func (ms *messages) sought(what store.ParkedQuery) (out []row) {
	for _, k := range ms.rows {
		switch {
		case what.Consumer != "" && k.Consumer != what.Consumer,
			what.Identity != nil && k.Identity != *what.Identity,
			what.Key != nil && (k.Message.Key == nil || !bytes.Equal(k.Message.Key, what.Key)),
			what.Fingerprint != "" && (k.Dead == nil || k.Dead.Fingerprint != what.Fingerprint),
			what.Dead != nil && *what.Dead != (k.Dead != nil),
			what.Failed && k.Attempts == 0 && !uncounted(k),
			what.Calling && k.Call == nil,
			k.Place <= what.After:
		default:
			out = append(out, k)
		}
	}
	slices.SortFunc(out, byPlace)
	return out
}

// uncounted reports whether k has a failed attempt that was not counted.
func uncounted(k row) bool {
	return k.Dead == nil && !k.First.At.IsZero() && !k.Last.At.Before(k.First.At)
}

// Keeping counts the parked messages and dead letters of a consumer.
func (ms *messages) Keeping(consumer string, now time.Time) (n store.ParkedCounts) {
	for _, k := range ms.rows {
		if consumer == k.Consumer {
			count(&n, k, now)
		}
	}
	return n
}

// Count adds the counts of all messages to the backlogs of their consumers. The function backlogOf returns
// the backlog of a consumer.
func (ms *messages) Count(backlogOf func(consumer string) *store.ConsumerBacklog, now time.Time) {
	for _, k := range ms.rows {
		n := backlogOf(k.Consumer)
		count(&n.ParkedCounts, k, now)
		if k.Call != nil {
			n.Calls++
			n.OldestCall = max(n.OldestCall, now.Sub(k.Call.Since))
		}
	}
}

// count adds k to n.
func count(n *store.ParkedCounts, k row, now time.Time) {
	if k.Dead != nil {
		n.Dead++
		n.DeadBytes += k.bytes()
		return
	}
	n.Parked++
	n.Bytes += k.bytes()
	n.Oldest = max(n.Oldest, now.Sub(k.Since))
}

// Unhandled lists the types of messages that no process handled, because they need another build. It does
// not set LastHeartbeat.
func (ms *messages) Unhandled() (out []store.UnhandledKind) {
	type kind struct {
		consumer string
		store.Kind
	}
	all, last := map[kind]*store.UnhandledKind{}, map[kind]time.Time{}
	for _, k := range ms.rows {
		if k.Dead != nil || !k.First.At.IsZero() || k.Last.At.IsZero() {
			continue
		}
		key := kind{k.Consumer, store.Kind{Topic: k.Message.Topic, Type: k.Message.Type}}
		if all[key] == nil {
			all[key] = &store.UnhandledKind{Consumer: key.consumer, Kind: key.Kind, LastHeartbeat: -1}
		}
		if all[key].Messages++; !k.Last.At.Before(last[key]) {
			all[key].Host, last[key] = k.Last.Host, k.Last.At
		}
	}
	for _, one := range all {
		out = append(out, *one)
	}
	slices.SortFunc(out, func(a, b store.UnhandledKind) int {
		return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Topic, b.Topic),
			cmp.Compare(a.Type, b.Type))
	})
	return out
}
