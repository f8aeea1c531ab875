// This file has what an inbox takes out of the store again: it claims parked messages that are due, with
// what waits directly behind them, says in which portions, and counts what is kept.
//
// What is claimed becomes an entry in a chain of its own, which goes into the schedule as others do: but a
// process may have died of it before, and then it is a suspect, which is taken while nothing else is in hand.

package inbox

import (
	"log/slog"
	"slices"
	"time"

	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/store"
)

// at once, to share transactions: where the process dies twice, each of them is taken alone; as many more may
// ride
const mostClaimed = 1000

// A parkedConfig is what a Queue goes by.
type parkedConfig struct {
	Group   string // the consumer
	DB      store.Store
	Workers int
	Bytes   int         // that what was claimed may take
	Alone   func() bool // nothing may be claimed along with others of its key
	Now     func() time.Time
	Log     *slog.Logger // that names the consumer

	// of a key: what may be parked of those that were admitted
	KeyRows, KeyBytes int64

	Lease   func() time.Duration        // for which a claim is ours
	Handles func(store.Kind) bool       // by this build
	Calls   func(store.Kind) bool       // whether its handler makes a call
	Again   func(id store.Identity) int // attempts that ended without a charge
	// Refused are the refusals of the store to park a message, in a row.
	Refused func(store.Identity) partition.Refusals
	Retries func() int // how many messages that are Lasting may be here
	// Running reports whether this process still runs a message, or one of its key past its time.
	Running func() func(*store.Parked) bool
	// Uncharged is how long a message may fail before it is Lasting.
	Uncharged time.Duration
}

// A queue is what an inbox knows of the messages that the store keeps for it. But for Look it belongs to one
// goroutine.
type queue struct {
	o        parkedConfig
	schedule *partition.Schedule
	// unhandled is for admitted messages of types without a handler.
	unhandled backoff.Rarely
	shelf
}

// A shelf is what is known until the group is left.
type shelf struct {
	partition *partition.Partition      // of what was claimed: none of the broker's, never acknowledged
	claimed   map[*partition.Entry]bool // and not finished
	size      int                       // how many of it may share a transaction
	along     int                       // how many may ride with each key
	riding    int                       // how many did, of what was claimed last
	at        time.Time                 // when to look again
	idle      int                       // looks in a row that found nothing
	changed   bool                      // something was parked or freed since the last count
	admitted  bool                      // the last claim saw admitted messages in quarantine
	counted   time.Time
	some      bool          // at the last count something was kept
	took      time.Duration // the last count

	suspects []*partition.Chain // of what was claimed: a process may have died of them
	alone    *partition.Entry   // of these, the one in hand: nothing else is

	hung map[store.Identity]bool // handlers that ignore that their context ended
}

// newParked returns a queue without claimed messages. Its chains start through s. The first look counts the
// parked messages of all instances.
func newParked(o parkedConfig, s *partition.Schedule) *queue {
	q := &queue{o: o, schedule: s, unhandled: backoff.Seldom()}
	q.Clear()
	return q
}

// Clear forgets what was claimed.
func (q *queue) Clear() {
	q.shelf = shelf{partition: partition.New(""), claimed: map[*partition.Entry]bool{}, size: 1, along: 1,
		changed: true}
}

// Size is how many of what was claimed may share a transaction.
func (q *queue) Size() int { return q.size }

// Claimed is how many were claimed and are not finished.
func (q *queue) Claimed() int { return len(q.claimed) }

// Appetite is how many more messages may be claimed where so many jobs may be in hand, and at most limit:
// what waits here for a worker wears its lease out. Nothing is claimed while half of that is here.
func (q *queue) Appetite(jobs, limit int) int {
	most := max(2*jobs, min(q.o.Workers*q.size, mostClaimed))
	if q.riding > 0 {
		most *= 2 // half of it at least was not claimed
	}
	most = min(most, limit)
	n := q.count(func(e *partition.Entry) bool { return !q.hangs(e) })
	if 2*n <= most && q.bytes() < q.o.Bytes-store.PageBytes {
		return most - n
	}
	return 0
}

// Hang notes which handlers ignore that their context ended. A suspect among them runs alone no longer.
func (q *queue) Hang(ids map[store.Identity]bool) {
	q.hung = ids
	if q.alone != nil && q.hangs(q.alone) {
		q.o.Log.Warn("inbox: others go on next to a message that ran alone: its handler does not return",
			"topic", q.alone.Topic, "id", q.alone.ID, "type", q.alone.Type)
		q.alone = nil
	}
}

func (q *queue) hangs(e *partition.Entry) bool { return len(q.hung) > 0 && q.hung[e.Identity()] }

// count returns how many claimed messages are so.
func (q *queue) count(so func(*partition.Entry) bool) (n int) {
	for e := range q.claimed {
		if so(e) {
			n++
		}
	}
	return n
}

// bytes is what the messages take that were claimed.
func (q *queue) bytes() (n int) {
	for e := range q.claimed {
		n += e.Weight()
	}
	return n
}

// Adapt lets what was claimed share transactions, most at a time, for as long as that goes well: what failed
// once mostly fails again. Nor is so much to be claimed that it waits here for half the time that its lease
// has for that.
func (q *queue) Adapt(rs []exec.Result, most int) {
	well := []decide.Ending{decide.Handled, decide.Duplicate, decide.Rejected, decide.Barred, decide.Stale,
		decide.Left}
	ill := func(r exec.Result) bool { return r.Fell || !slices.Contains(well, r.What) }
	switch {
	case slices.ContainsFunc(rs, ill):
		q.size = 1
	case q.o.Now().Sub(rs[0].Entry.Since) > exec.TurnOfClaimed/2:
		q.size = max(1, q.size/2)
	default:
		q.size = max(1, min(2*q.size, most))
		q.along = min(2*q.along+1, most)
	}
}

// Suspect is the next one that a process may have died of; nil: there is none. It is in hand from then on.
func (q *queue) Suspect() *partition.Entry {
	if len(q.suspects) == 0 {
		return nil
	}
	q.alone = q.suspects[0].Queue[0]
	q.suspects = q.suspects[1:]
	return q.alone
}

// Suspects tells whether a suspect waits for everything else to end, or is in hand, which nothing may be
// beside.
func (q *queue) Suspects() (wait, inHand bool) { return len(q.suspects) > 0, q.alone != nil }

// Settle takes a message out that was claimed. Wait is how long it takes until the next of its key is due.
func (q *queue) Settle(e *partition.Entry, wait time.Duration) {
	e.Done = true
	delete(q.claimed, e)
	if q.alone == e {
		q.alone = nil
	}
	q.changed = true
	q.Soon(q.o.Now().Add(wait))
}

// Unbegun are the messages that were claimed and not begun.
func (q *queue) Unbegun() (out []*partition.Entry) {
	for _, c := range slices.Concat(q.schedule.Heads(), q.suspects) {
		if e := c.Queue; len(e) > 0 && e[0].Parked != nil && q.claimed[e[0]] {
			out = append(out, e[0])
		}
	}
	return out
}
