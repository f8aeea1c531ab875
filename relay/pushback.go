package relay

import (
	"maps"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// A broker that answers may still not accept a message for hours: its queue or stream is full, or it has no
// majority. The shard of the message retries a few times, as after any failure. Each time it repeats the rows
// that were acknowledged after this message. Then the row is deferred like a refused row, so that only its
// key waits.

const (
	// failMost is the number of failures after which a row is deferred, if the broker answered each time.
	failMost = 3
	// pushFor is the time for which a topic counts as full after its last failure. Meanwhile, a row of the
	// topic is deferred at its first failure.
	pushFor = 2 * time.Minute
)

// pushback is the state of a topic that accepts no more rows.
type pushback struct {
	why  string
	last time.Time // the last failure
}

// deferRow defers a row after failMost failures, if the broker answered each time but did not accept the row.
// If an earlier row of the key is deferred, the broker held this row back, so deferRow defers this row, too.
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

// notePushback records that a topic did not accept a row. It logs each reason only from time to time.
func (r *Relay) notePushback(s *shard, row *store.Row, why error) {
	next := pushback{why: why.Error(), last: r.o.Now()}
	if _, due := r.pushbacks.due(row.Topic, next.why, next.last); due {
		r.o.Logger.Warn("relay: a topic does not accept rows; they are deferred with their keys and retried at growing intervals",
			"owner", r.o.Owner, "topic", row.Topic, "shard", s.ID, "seq", row.Seq, "id", row.ID, "error", why)
	}
	r.pushed[row.Topic] = next
	r.count(func(h *Health) {
		full := maps.Clone(h.PushedBack) // readers of Health may use the old map
		if full == nil {
			full = map[string]string{}
		}
		full[row.Topic] = next.why
		h.PushedBack = full
	})
}

// forgetPushback forgets topics without a recent failure.
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

// keysSeen are the keys of a call with a row that was not acknowledged.
type keysSeen map[string]bool

// first reports whether m is the first of its key.
func (k keysSeen) first(m *skald.Message) bool {
	if m.Key == nil {
		return true
	}
	seen := k[keyOf(m)]
	k[keyOf(m)] = true
	return !seen
}
