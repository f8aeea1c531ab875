// Package partition has an inbox's partitions in memory: their unfinished messages, the messages that may
// start, the position up to which all are finished, and the limits at which partitions pause.
//
// The messages of one key form a chain; only its head may run. A schedule has the chains with heads that may
// start, in the order in which they came. The inbox acknowledges the finished messages at the head of a
// partition.
//
// All of it belongs to one goroutine. Only the entries of a job belong to its worker.
package partition

import (
	"strings"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store"
)

// Partition has the unacknowledged messages of one partition of the broker, in order.
type Partition struct {
	Name    string
	Entries []*Entry // the unacknowledged ones, oldest first
	Bytes   int      // memory of Entries
	chains  map[string]*Chain
	Paused  bool
	Full    int  // entries that wait until more messages may be parked
	Lost    bool // the broker took the partition away: jobs may end, but are not acknowledged

	// The following fields are the progress of the partition, and its checkpoint in the database.

	Origin     string // of its positions; "": positions have no meaning after the connection
	At         int64  // the first position that is not finished; -1: not known yet
	Front      int64  // the position after the last begun one
	Begun      int    // messages begun since the last checkpoint
	Wanted     int64  // the position after the first one that waits for a checkpoint; 0: none waits
	Open       bool   // the database has stored that this process occupies the partition
	Server     string // the run of the database server at that time
	Session    string // of this process at that time
	Checkpoint *store.Checkpoint
	Trying     []string          // stamps of later checkpoints without an answer: one of them may be stored
	Was        *store.Checkpoint // while the partition is not open: as its last owner left it
	Foreign    bool              // its last owner did not leave it cleanly
	Since      time.Time         // when it was gained
	Shared     bool              // with other members: it is open immediately and has no checkpoint
	Looked     time.Time         // when Was was read

	// Suspects is the end of the messages that may have crashed each process that died.
	Suspects    int64
	Redelivered bool            // instead of Suspects: messages that were delivered before are suspects
	Tried       map[string]bool // keys with a suspect already
}

// New returns an empty partition.
func New(name string) *Partition {
	return &Partition{Name: name, At: -1, chains: map[string]*Chain{}}
}

// Add adds a delivery to the chain of its key.
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

// Prefix removes the finished entries at the partition's head, and returns the last of them.
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

// Covers reports whether a position may begin: the stored checkpoint must include it.
func (l *Partition) Covers(position int64) bool {
	return l.Origin == "" || l.Checkpoint != nil && position < l.Checkpoint.InFlightEnd
}

// Dirty reports whether the checkpoint has to be stored. A partition without an origin has none.
func (l *Partition) Dirty() bool {
	return l.Open && l.Origin != "" && (l.At != l.Checkpoint.Position || l.Wanted > l.Checkpoint.InFlightEnd)
}

// Visited reports whether another process occupied the partition and left it cleanly between two looks. A
// restored database has an older checkpoint than the last one seen; a rewound partition an earlier position.
func (l *Partition) Visited(s store.Checkpoint, ours string) bool {
	seen := l.Checkpoint.At
	if l.Was != nil && l.Was.At.After(seen) {
		seen = l.Was.At
	}
	return s.Session == "" && !strings.HasPrefix(s.Stamp, ours+"-") && s.Origin == l.Checkpoint.Origin &&
		s.Position >= l.Checkpoint.Position && s.At.After(seen)
}

// Chain has the deliveries of one key in one partition. Only its head may run.
type Chain struct {
	Partition *Partition
	key       string // "" for a message without a key, which has its own chain
	Queue     []*Entry
	due       time.Time // of the head
	nth       int64     // Entry.Nth of the head, while it is ready
	Busy      bool      // the head is scheduled, waits or runs
}

// Pass removes the finished entries from the head of the chain. It returns false if the chain is empty.
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

// Suspect marks entries that may have crashed a process: only the first unfinished message of a key can have
// run. If the finished messages are not known, each message may be that first one.
func Suspect(es []*Entry, known bool) {
	for _, e := range es {
		l := e.Chain.Partition
		switch {
		case e.Done || !e.Readable():
		case l.Shared: // the previous attempt may have run in any member
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

// maxHeldBytes bounds the unacknowledged bytes of one partition.
const maxHeldBytes = 16 << 20

// Bound limits unacknowledged messages. Partitions pause at it.
type Bound struct {
	Unacknowledged int // deliveries of a partition
	Bytes          int // of all partitions; at this limit each partition with more than its share pauses
}

// Apply returns the partitions that have to pause now, and those that resume because they are at half of
// their limit.
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
		case !l.Paused && (n >= b.Unacknowledged || l.Bytes >= most || l.Full > 0):
			l.Paused = true
			pause = append(pause, name)
		case l.Paused && n <= b.Unacknowledged/2 && l.Bytes <= most/2 && l.Full == 0:
			l.Paused = false
			resume = append(resume, name)
		}
	}
	return pause, resume
}
