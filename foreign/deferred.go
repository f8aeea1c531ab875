// This file defers rows that cannot be published, with their keys or topics.

package foreign

import (
	"time"

	"github.com/skald-go/skald/internal/backoff"
)

// deferredMost limits the number of deferred rows, keys and topics. If more fail, the cause is the column map
// or the broker, not single rows.
const deferredMost = 10_000

// failMost is the number of failed pages in a row after which a topic is deferred.
const failMost = 3

// The kinds of a hold.
const (
	aTopic = 't' // a topic that is missing, or for which the broker refuses all rows
	aKey   = 'k' // the key of a row that cannot be published; later rows of the key wait
	aRow   = 'r' // a row without a key, by its position in the table
)

// hold identifies a deferred topic, key or row.
type hold struct {
	kind byte
	name string
}

// deferred has the topics, keys and rows that pages omit until they are due. It is only in memory. Their rows
// are not marked as done, so another process finds the same faults.
type deferred struct {
	o     *Options
	held  map[hold]held
	fails map[string]int // pages in a row in which a topic failed
	puts  int            // the number of calls to put
}

// held is the state of a deferred topic, key or row.
type held struct {
	tries int
	due   time.Time
	again time.Time // when it became due; zero before
}

func newDeferred(o *Options) deferred {
	return deferred{o: o, held: map[hold]held{}, fails: map[string]int{}}
}

// put defers h, each time for longer. It returns true if h was not deferred before.
func (a *deferred) put(h hold) (first bool) {
	was := a.held[h]
	a.puts++
	was.tries++
	was.again = time.Time{}
	was.due = a.o.Now().Add(backoff.After(was.tries, a.o.DeferFirst, a.o.DeferMost))
	a.held[h] = was
	return was.tries == 1
}

func (a *deferred) holds(h hold) bool {
	is, ok := a.held[h]
	return ok && is.due.After(a.o.Now())
}

func (a *deferred) full() bool { return len(a.held) >= deferredMost }

// except returns the deferred topics, keys and rows as PostgreSQL arrays. It omits those that are due.
func (a *deferred) except() (topics, keys, rows string) {
	now, names := a.o.Now(), map[byte][]string{}
	for h, is := range a.held {
		switch {
		case is.due.After(now):
			names[h.kind] = append(names[h.kind], h.name)
		case is.again.IsZero():
			is.again = now
			a.held[h] = is
		case now.Sub(is.again) > 10*a.o.DeferMost: // no page has read a row of h since then
			delete(a.held, h)
		}
	}
	return array(names[aTopic]), array(names[aKey]), array(names[aRow])
}

// earliestDue returns the earliest due time, or zero if no topic, key or row is deferred.
func (a *deferred) earliestDue() (at time.Time) {
	now := a.o.Now()
	for _, is := range a.held {
		if is.due.After(now) && (at.IsZero() || is.due.Before(at)) {
			at = is.due
		}
	}
	return at
}

// took removes the topic, the key and the row of r, because the broker acknowledged r.
func (a *deferred) took(r *row) {
	delete(a.fails, r.message.Topic)
	if len(a.held) == 0 {
		return
	}
	for _, h := range []hold{{aTopic, r.message.Topic}, {aKey, r.key.String}, {aRow, r.name()}} {
		delete(a.held, h)
	}
}

// countFailed counts a page in which a topic failed although the broker answered. It returns true if the
// topic must be deferred.
func (a *deferred) countFailed(topic string) (over bool) {
	if a.fails[topic]++; a.fails[topic] < failMost {
		return false
	}
	delete(a.fails, topic)
	return true
}
