package relay

import (
	"maps"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// This file handles a topic that accepts no rows, although the broker answers: its queue or stream is full,
// or it has no majority. This may last for hours. The shard of a row first retries a few times, as after any
// failure. Each retry repeats the rows that were acknowledged after this row. Then the relay defers the row,
// so that only its key waits.

const (
	// failMost is the number of failures after which the relay defers a row, if the broker answered each
	// time.
	failMost = 3
	// pushFor is the time for which a topic counts as full after its last failure. During this time the relay
	// defers a row of the topic at its first failure.
	pushFor = 2 * time.Minute
)

// pushback is the state of a topic that accepts no rows.
type pushback struct {
	why  string
	last time.Time // the last failure
}

// deferRow defers a row that the broker did not accept, after failMost answered failures. It also defers the
// row if an earlier row of its key is deferred, because the broker held it back for that reason. It returns
// false if the row must be retried.
func (r *Relay) deferRow(s *shard, p *piece, row *store.Row, why error) bool {
	if s.blocks(&row.Message) {
		delete(s.suspects, row.Seq)
		delete(s.failed, row.Seq)
		p.deferred = append(p.deferred, store.DeferredRow{Row: *row})
		r.scheduleDeferred(r.o.DeferFirst)
		return true
	}
	known, ok := r.pushed[row.Topic]
	s.failed[row.Seq]++
	if s.failed[row.Seq] < failMost && !(ok && r.o.Now().Sub(known.last) < pushFor) {
		return false
	}
	delete(s.failed, row.Seq)
	r.notePushback(s, row, why)
	r.addDeferred(s, p, row, why)
	return true
}

// notePushback records that a topic did not accept a row. It logs each reason only at intervals.
func (r *Relay) notePushback(s *shard, row *store.Row, why error) {
	next := pushback{why: why.Error(), last: r.o.Now()}
	if _, due := r.pushbacks.countRefused(row.Topic, next.why, next.last); due {
		r.o.Logger.Warn("relay: a topic does not accept rows; they are deferred with their keys and retried at growing intervals",
			"owner", r.o.Owner, "topic", row.Topic, "shard", s.ID, "seq", row.Seq, "id", row.ID, "error", why)
	}
	r.pushed[row.Topic] = next
	r.count(func(h *Health) {
		full := maps.Clone(h.PushedBack) // copied, because callers of Health may read the old map
		if full == nil {
			full = map[string]string{}
		}
		full[row.Topic] = next.why
		h.PushedBack = full
	})
}

// forgetPushback removes topics without a recent failure.
func (r *Relay) forgetPushback(now time.Time) {
	for topic, p := range r.pushed {
		if now.Sub(p.last) < pushFor {
			continue
		}
		delete(r.pushed, topic)
		delete(r.pushbacks, topic)
		r.o.Logger.Info("relay: a topic accepts rows again", "owner", r.o.Owner, "topic", topic)
		r.count(func(h *Health) {
			full := maps.Clone(h.PushedBack)
			delete(full, topic)
			h.PushedBack = full
		})
	}
}

// keysSeen has the keys of rows that were not acknowledged in a call.
type keysSeen map[string]bool

// isFirst returns true if m is the first message of its key. It records the key.
func (k keysSeen) isFirst(m *skald.Message) bool {
	if m.Key == nil {
		return true
	}
	seen := k[keyOf(m)]
	k[keyOf(m)] = true
	return !seen
}
