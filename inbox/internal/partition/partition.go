// Package partition has the partitions of an inbox in memory. A partition has its unfinished messages, the
// position up to which all messages are finished, and the limits at which it pauses.
//
// The messages of one key form a chain. Only the first message of a chain, its head, may run. A Schedule has
// the chains that may start, in the order in which their heads came. The inbox acknowledges the finished
// messages at the start of a partition.
//
// Only one goroutine uses this package. While a worker has a job, the entries of the job belong to the
// worker.
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
	Entries []*Entry // the unacknowledged messages, oldest first
	Bytes   int      // bytes of memory that Entries use
	chains  map[string]*Chain
	Paused  bool
	Full    int  // entries that wait until more messages may be parked
	Lost    bool // the broker took it away: jobs may end, but the inbox cannot acknowledge them

	// The following fields have the progress of the partition, and its checkpoint in the database.

	Origin     string // id of its positions at the broker; "" if they are valid for one connection only
	At         int64  // the first position that is not finished; -1 if unknown
	Front      int64  // the position after the last started message
	Begun      int    // messages started since the last checkpoint
	Wanted     int64  // the position after the first message that waits for a checkpoint; 0 if none waits
	Open       bool   // the database has stored that this process occupies the partition
	Server     string // the run of the database server when the partition was opened
	Session    string // the session of this process when the partition was opened
	Checkpoint *store.Checkpoint
	Trying     []string          // stamps of later checkpoints that may be stored, without an answer
	Was        *store.Checkpoint // while the partition is not open: the last owner's checkpoint
	Foreign    bool              // the last owner did not leave the partition cleanly
	Since      time.Time         // when the broker assigned the partition
	Shared     bool              // other members share it: it is always open and has no checkpoint
	Looked     time.Time         // when Was was read

	// Suspects is the position up to which messages may have crashed each process that died.
	Suspects    int64
	Redelivered bool            // redelivered messages are suspects; then Suspects is not used
	Tried       map[string]bool // keys that have a suspect already
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

// Prefix removes the finished entries at the start of the partition, and returns the last of them.
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

// Covers reports whether the message at a position may start: the stored checkpoint must include it.
func (l *Partition) Covers(position int64) bool {
	return l.Origin == "" || l.Checkpoint != nil && position < l.Checkpoint.InFlightEnd
}

// Dirty reports whether the checkpoint must be stored. A partition without an origin has no checkpoint.
func (l *Partition) Dirty() bool {
	return l.Open && l.Origin != "" && (l.At != l.Checkpoint.Position || l.Wanted > l.Checkpoint.InFlightEnd)
}

// Visited reports whether another process occupied the partition and left it cleanly between two looks. After
// a restore of the database the checkpoint is older than the last one seen. After a rewind its position is
// smaller. In both cases Visited returns false.
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
	due       time.Time // when the head is due
	nth       int64     // Entry.Nth of the head while the chain is ready
	Busy      bool      // the head is scheduled, waits or runs
}

// Pass removes the finished entries from the start of the chain. It returns false if the chain is empty.
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

// Suspect marks the entries that may have crashed a process. Of each key, only the first unfinished message
// can have run. If known is false, the finished messages are unknown, and each message may be that first one.
func Suspect(es []*Entry, known bool) {
	for _, e := range es {
		l := e.Chain.Partition
		switch {
		case e.Done || !e.Readable():
		case l.Shared: // any member may have made the previous attempt
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

// Bound limits the unacknowledged messages. At the limit partitions pause.
type Bound struct {
	Unacknowledged int // deliveries of a partition
	Bytes          int // bytes of all partitions; at this limit each one with more than its share pauses
}

// Apply returns the partitions that have to pause now. It also returns the paused partitions that resume
// because they are at half of their limit.
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
