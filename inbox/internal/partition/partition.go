// Package partition is what an inbox has of the broker's partitions in memory: which messages are not
// finished, which of them may start, how far all before are finished, and where it pauses.
//
// Messages of one key make a chain, of which only the head may be in hand. A schedule has the chains whose
// heads may start, in the order in which they came. What is finished from the head of a partition on is
// acknowledged.
//
// All of it belongs to one goroutine. A worker has the entries of its job to itself, and touches nothing
// else.
package partition

import (
	"strings"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store"
)

// A Partition is what the broker gave us of one of its partitions and is not acknowledged yet, in its order.
type Partition struct {
	Name    string
	Entries []*Entry // the unacknowledged ones, oldest first
	Bytes   int      // that they take
	chains  map[string]*Chain
	Paused  bool
	Full    int  // entries that should be parked, and no more may be
	Lost    bool // the broker took the partition away: what still runs may end, but is not acknowledged

	// How far it is, and what the database knows of that.
	Origin     string // of its positions; "": they mean nothing
	At         int64  // the first position that is not finished; -1: not known yet
	Front      int64  // the position after the last that was begun
	Begun      int    // since it was stored how far the partition is
	Wanted     int64  // the one after the first that waits until more is noted; 0: none waits
	Open       bool   // the database knows that we have it
	Server     string // on which that was
	Session    string // ours, then
	Checkpoint *store.Checkpoint
	// the names of what was to be stored since, where no answer came: one of them may stand
	Trying  []string
	Was     *store.Checkpoint // while it is not open: as others left it
	Foreign bool              // not in peace
	Since   time.Time         // when it was gained
	// with other members: it is open at once, and the database knows nothing of it
	Shared bool
	Looked time.Time

	// What a process may have died of.
	Suspects    int64 // up to here a message may have been in hand whenever a process died
	Redelivered bool  // the same, of messages that were delivered before
	Tried       map[string]bool
}

// New is a partition of which nothing has come yet.
func New(name string) *Partition {
	return &Partition{Name: name, At: -1, chains: map[string]*Chain{}}
}

// Add puts a delivery behind those of its key.
func (l *Partition) Add(d broker.Delivery) *Entry {
	e := &Entry{Delivery: d, session: l.Session}
	l.Entries = append(l.Entries, e)
	l.Bytes += e.Weight()
	if d.Key == nil {
		e.Chain = &Chain{Partition: l, Queue: []*Entry{e}}
		return e
	}
	key := d.Topic + "\x00" + string(d.Key)
	if l.chains[key] == nil {
		l.chains[key] = &Chain{Partition: l, key: key}
	}
	e.Chain = l.chains[key]
	e.Chain.Queue = append(e.Chain.Queue, e)
	return e
}

// Prefix takes the finished entries at the partition's head and returns the last of them.
func (l *Partition) Prefix() (last broker.Delivery, ok bool) {
	n := 0
	for n < len(l.Entries) && l.Entries[n].Done {
		n++
	}
	if n == 0 {
		return broker.Delivery{}, false
	}
	last = l.Entries[n-1].Delivery
	for _, e := range l.Entries[:n] {
		l.Bytes -= e.Weight()
	}
	clear(l.Entries[:n])
	l.Entries = l.Entries[n:]
	l.At = max(l.At, last.Position+1)
	return last, true
}

// Covers tells whether a position may be begun.
func (l *Partition) Covers(position int64) bool {
	return l.Origin == "" || l.Checkpoint != nil && position < l.Checkpoint.InFlightEnd
}

// Dirty tells whether the database does not know how far the partition has come. Where positions mean
// nothing, there is nothing to know.
func (l *Partition) Dirty() bool {
	return l.Open && l.Origin != "" && (l.At != l.Checkpoint.Position || l.Wanted > l.Checkpoint.InFlightEnd)
}

// Visited tells whether a rival occupied the partition and left it in peace between two looks. A database
// that went back tells of something older than what was seen there before; one that was rewound of an earlier
// position.
func (l *Partition) Visited(s store.Checkpoint, ours string) bool {
	seen := l.Checkpoint.At
	if l.Was != nil && l.Was.At.After(seen) {
		seen = l.Was.At
	}
	return s.Session == "" && !strings.HasPrefix(s.Stamp, ours+"-") && s.Origin == l.Checkpoint.Origin &&
		s.Position >= l.Checkpoint.Position && s.At.After(seen)
}

// A Chain is the deliveries of one key in one partition: only its head may be in hand.
type Chain struct {
	Partition *Partition
	key       string // "" for a message without a key, which is a chain of its own
	Queue     []*Entry
	due       time.Time // the head's
	nth       int64     // of the head, while it is ready
	Busy      bool      // scheduled or in hand: somebody will look at the head
}

// Pass takes entries that are done from the head of the chain; false when nothing is left of it.
func (c *Chain) Pass() bool {
	for len(c.Queue) > 0 && c.Queue[0].Done {
		c.Queue[0] = nil
		c.Queue = c.Queue[1:]
	}
	if len(c.Queue) == 0 && c.key != "" {
		delete(c.Partition.chains, c.key)
	}
	return len(c.Queue) > 0
}

// Suspect looks for what a process may have died of: of each key the first that is not finished was in its
// hand, or none. Unless all that was finished is known, any may be the first.
func Suspect(es []*Entry, known bool) {
	for _, e := range es {
		l := e.Chain.Partition
		switch {
		case e.Done || !e.Readable():
		case l.Shared: // nobody knows who had it, nor what became of that
			e.Suspect = e.Attempt > 0
			continue
		case l.Tried == nil:
		case l.Redelivered:
			e.Suspect = e.Attempt > 0 && !l.Tried[e.Chain.key]
		case e.Position < l.Suspects:
			e.Suspect = !l.Tried[e.Chain.key]
		default:
			l.Tried = nil
		}
		if e.Suspect && known && e.Chain.key != "" {
			l.Tried[e.Chain.key] = true
		}
	}
}

// maxHeldBytes bounds what one partition may hold unacknowledged, whatever the size of its messages.
const maxHeldBytes = 16 << 20

// A Bound is how much may be unacknowledged before partitions pause.
type Bound struct {
	Held  int // deliveries of a partition
	Bytes int // of all partitions together; once they hold as many, one with more than its share pauses
}

// Apply are the partitions that are to pause now, as they have too much unacknowledged, and those that are to
// go on: they have worked half of it off.
func (b Bound) Apply(all map[string]*Partition) (pause, resume []string) {
	bytes := 0
	for _, l := range all {
		bytes += l.Bytes
	}
	most := min(maxHeldBytes, b.Bytes)
	if bytes >= b.Bytes {
		most = min(most, b.Bytes/len(all))
	}
	for name, l := range all {
		switch n := len(l.Entries); {
		case !l.Paused && (n >= b.Held || l.Bytes >= most || l.Full > 0):
			l.Paused = true
			pause = append(pause, name)
		case l.Paused && n <= b.Held/2 && l.Bytes <= most/2 && l.Full == 0:
			l.Paused = false
			resume = append(resume, name)
		}
	}
	return pause, resume
}
