package relay

import (
	"maps"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// A broker that answers, and does not take a message (its queue or stream is full, it has no majority), may
// do so for hours. The shard of the message tries again a few times, as it does behind any failure, and
// repeats each time what was taken behind the message. Then the row is deferred like one that was refused, so
// that its key alone waits.

const (
	// failures of a row with an answer of the broker, of which the last sets it aside
	failMost = 3
	// behind the last one, how long a topic counts as one that takes nothing: then the first failure does
	pushFor = 2 * time.Minute
)

// pushback is what is known of a topic that does not take what it is given.
type pushback struct {
	why       string
	last, say time.Time // the last failure; when to log the next
}

// deferRow sets a row aside that the broker had an answer for and did not take, too often. Where an earlier
// row of its key was, it is held back behind that, and goes aside too.
func (r *Relay) deferRow(l *shard, p *piece, row *store.Row, why error) bool {
	if l.holds(&row.Message) {
		delete(l.suspects, row.Seq)
		delete(l.failed, row.Seq)
		p.deferred = append(p.deferred, store.DeferredRow{Row: *row})
		r.putOff(r.o.DeferFirst)
		return true
	}
	known, ok := r.pushed[row.Topic]
	l.failed[row.Seq]++
	if l.failed[row.Seq] < failMost && !(ok && r.o.Now().Sub(known.last) < pushFor) {
		return false
	}
	delete(l.failed, row.Seq)
	r.pushesBack(l, row, why)
	r.putAside(l, p, row, why)
	return true
}

// pushesBack notes that a topic does not take a row, and says so now and then.
func (r *Relay) pushesBack(l *shard, row *store.Row, why error) {
	now, was := r.o.Now(), r.pushed[row.Topic]
	next := pushback{why: why.Error(), last: now, say: was.say}
	if !now.Before(was.say) {
		next.say = now.Add(pushFor)
		r.o.Logger.Warn("relay: a topic does not take what it is given; such rows are deferred with their keys, and tried more and more seldom",
			"owner", r.o.Owner, "topic", row.Topic, "shard", l.ID, "seq", row.Seq, "id", row.ID, "error", why)
	}
	r.pushed[row.Topic] = next
	r.count(func(h *Health) {
		full := maps.Clone(h.PushedBack) // who was given the other reads on
		if full == nil {
			full = map[string]string{}
		}
		full[row.Topic] = next.why
		h.PushedBack = full
	})
}

// relent forgets topics that were not told of for long.
func (r *Relay) relent(now time.Time) {
	for topic, p := range r.pushed {
		if now.Sub(p.last) < pushFor {
			continue
		}
		delete(r.pushed, topic)
		r.o.Logger.Info("relay: a topic takes again what it is given", "owner", r.o.Owner, "topic", topic)
		r.count(func(h *Health) {
			full := maps.Clone(h.PushedBack)
			delete(full, topic)
			h.PushedBack = full
		})
	}
}

// firsts are the keys of a call of which a row was not taken.
type firsts map[string]bool

// of tells whether m is the first of its key.
func (f firsts) of(m *skald.Message) bool {
	if m.Key == nil {
		return true
	}
	seen := f[keyOf(m)]
	f[keyOf(m)] = true
	return !seen
}
