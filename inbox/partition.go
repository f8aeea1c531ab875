package inbox

import (
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store"
)

// A partition is what the broker gave us of one of its partitions and is not acknowledged yet, in its order.
type partition struct {
	name    string
	entries []*entry // the unacknowledged ones, oldest first
	bytes   int      // that they take
	chains  map[string]*chain
	paused  bool
	full    int  // entries that should be parked, and no more may be
	lost    bool // the broker took the partition away: what still runs may end, but is not acknowledged

	origin     string // of its positions; "": they mean nothing
	at         int64  // the first position that is not finished; -1: not known yet
	front      int64  // behind the last that was begun
	begun      int    // since it was stored how far the partition is
	wanted     int64  // behind the first that is to be begun and waits for that to be noted; 0: none waits
	open       bool   // the database knows that we have it
	server     string // on which that was
	session    string // ours, then
	checkpoint *store.Checkpoint
	// the names of what was to be stored since, where no answer came: one of them may stand
	trying  []string
	was     *store.Checkpoint // while it is not open: as others left it
	foreign bool              // not in peace
	since   time.Time         // when it was gained
	// with other members: it is open at once, and the database knows nothing of it
	shared bool
	looked time.Time

	suspects    int64 // up to here a message may have been in hand whenever a process died
	redelivered bool  // the same, of messages that were delivered before
	tried       map[string]bool
}

// An entry is one delivery on its way through the inbox.
type entry struct {
	broker.Delivery
	chain      *chain
	nth        int64 // in which order it came
	id         store.Identity
	unknown    error         // why it has no id
	parked     *store.Parked // where it comes from, if not from the broker, as it was claimed
	step       *store.Step   // that it takes or undoes; nil: none, or not known yet
	stood      store.Step    // how that stood, in this attempt
	since      time.Time     // of a claimed one: the claim was asked for then, and has lasted no longer
	lease      time.Duration // for which it is ours, from then
	prefetches bool          // it was not claimed, but read along with the first of its key: see ride
	call       *store.Call   // to the outside that it is at; nil: none yet, or never
	lonely     bool          // its handler makes a call
	outcome    string        // of it, which is to be settled now; "": not yet
	settled    bool          // that was not known for a while
	foreign    bool          // this build has no handler for its type
	suspect    bool          // it may have been in hand when a process died
	alone      bool          // so it is run with nothing beside it
	done       bool
	again      int  // attempts in a row after which it is still here: outages, and no room to park it
	full       bool // of those, the latter

	hints     int    // how often another process seemed to have it in hand
	overtaken int    // how often in this attempt
	server    string // on which its partition was taken, as it was when the entry was handed out; "": any
	session   string // ours, when it came
}

// A chain is the deliveries of one key in one partition: only its head may be in hand.
type chain struct {
	partition *partition
	key       string // "" for a message without a key, which is a chain of its own
	queue     []*entry
	due       time.Time // the head's
	nth       int64     // of the head, while it is ready
	busy      bool      // scheduled or in hand: somebody will look at the head
}

func (e *entry) size() int { return len(e.Key) + len(e.Data) }

func newPartition(name string) *partition {
	return &partition{name: name, at: -1, chains: map[string]*chain{}}
}

// add puts a delivery behind those of its key.
func (l *partition) add(d broker.Delivery) *entry {
	e := &entry{Delivery: d, session: l.session}
	l.entries = append(l.entries, e)
	l.bytes += e.weight()
	if d.Key == nil {
		e.chain = &chain{partition: l, queue: []*entry{e}}
		return e
	}
	key := d.Topic + "\x00" + string(d.Key)
	if l.chains[key] == nil {
		l.chains[key] = &chain{partition: l, key: key}
	}
	e.chain = l.chains[key]
	e.chain.queue = append(e.chain.queue, e)
	return e
}

// pass takes entries that are done from the head of the chain; false when nothing is left of it.
func (c *chain) pass() bool {
	for len(c.queue) > 0 && c.queue[0].done {
		c.queue[0] = nil
		c.queue = c.queue[1:]
	}
	if len(c.queue) == 0 && c.key != "" {
		delete(c.partition.chains, c.key)
	}
	return len(c.queue) > 0
}

// prefix takes the finished entries at the partition's head and returns the last of them.
func (l *partition) prefix() (last broker.Delivery, ok bool) {
	n := 0
	for n < len(l.entries) && l.entries[n].done {
		n++
	}
	if n == 0 {
		return broker.Delivery{}, false
	}
	last = l.entries[n-1].Delivery
	for _, e := range l.entries[:n] {
		l.bytes -= e.weight()
	}
	clear(l.entries[:n])
	l.entries = l.entries[n:]
	l.at = max(l.at, last.Position+1)
	return last, true
}

// inHandOf is the session of ours in which it is in hand; "": nobody knows of it.
func (e *entry) inHandOf() string {
	if e.parked != nil {
		return e.parked.Session
	}
	return e.session
}

func (e *entry) kind() store.Kind { return store.Kind{Topic: e.Topic, Type: e.Type} }
