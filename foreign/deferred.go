package foreign

import (
	"time"

	"github.com/skald-go/skald/internal/backoff"
)

// deferredMost bounds what is deferred. Where more is wrong than that, it is the column map or the broker,
// and not single rows.
const deferredMost = 10_000

// failMost is how many pages a topic may fail in, one after another, before it is deferred.
const failMost = 3

// What can be deferred.
const (
	aTopic = 't' // that the broker does not have, or that takes nothing
	aKey   = 'k' // of a row that cannot be published: the key's later rows wait for it
	aRow   = 'r' // without a key, by its place
)

// A hold is something deferred.
type hold struct {
	kind byte
	name string
}

// deferred is what pages leave out until it is due. It is in memory alone: the rows are not done, so that
// another process finds out the same.
type deferred struct {
	o     *Options
	held  map[hold]held
	fails map[string]int // pages in a row in which a topic failed
	puts  int            // how often something was deferred
}

type held struct {
	tries int
	due   time.Time
	again time.Time // when it was left out no more; zero: it was not due yet
}

func newDeferred(o *Options) deferred {
	return deferred{o: o, held: map[hold]held{}, fails: map[string]int{}}
}

// put defers h, for longer each time, and tells whether this is the first.
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

// except is what a page leaves out, as PostgreSQL takes it. What is due is tried again.
func (a *deferred) except() (topics, keys, rows string) {
	now, names := a.o.Now(), map[byte][]string{}
	for h, is := range a.held {
		switch {
		case is.due.After(now):
			names[h.kind] = append(names[h.kind], h.name)
		case is.again.IsZero():
			is.again = now
			a.held[h] = is
		case now.Sub(is.again) > 10*a.o.DeferMost: // nothing of it has turned up
			delete(a.held, h)
		}
	}
	return array(names[aTopic]), array(names[aKey]), array(names[aRow])
}

// next is when the first of what is deferred is due; zero: nothing is.
func (a *deferred) next() (at time.Time) {
	now := a.o.Now()
	for _, is := range a.held {
		if is.due.After(now) && (at.IsZero() || is.due.Before(at)) {
			at = is.due
		}
	}
	return at
}

// took: the broker has r.
func (a *deferred) took(r *row) {
	delete(a.fails, r.message.Topic)
	if len(a.held) == 0 {
		return
	}
	for _, h := range []hold{{aTopic, r.message.Topic}, {aKey, r.key.String}, {aRow, r.name()}} {
		delete(a.held, h)
	}
}

// failed counts a page in which a topic failed though the broker answered, and tells whether it is deferred
// for that.
func (a *deferred) failed(topic string) (over bool) {
	if a.fails[topic]++; a.fails[topic] < failMost {
		return false
	}
	delete(a.fails, topic)
	return true
}
