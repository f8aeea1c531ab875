// Package checkpoint stores how far the partitions of a consumer are: the positions below which all is
// finished, and up to where something may be in hand. It occupies partitions that were gained, finds out that
// the database went back or was rewound, and knows which types other builds of the consumer handle: what is
// skipped is finished, too.
//
// What is asked of the store is a Call: made by Next, done beside all else by Do, taken up by Done.
package checkpoint

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

const (
	noteEvery = 50 * time.Millisecond // how old what the database says of positions may be
	// LookPartitions is how often an idle inbox looks, at least, whether it was rewound or paused.
	LookPartitions = 8 * time.Second
	grace          = 400 * time.Millisecond // in which whoever had a partition says that it left in peace
	graceLook      = 25 * time.Millisecond  // how often whoever had a partition is looked for meanwhile
	// positions that may be begun before they are noted; as many as share a transaction, if that is more
	leastRoom = 2
)

// A Config is what a Checkpointer goes by.
type Config struct {
	Group  string // the consumer
	Member string // our name at the broker; "": none
	DB     Store
	// the types that this build handles, and whether one is
	Kinds   func() []store.Kind
	Handles func(store.Kind) bool

	Batch      int           // messages that share a transaction at the beginning
	RetryFirst time.Duration // how long to wait after a failure, at first
	Now        func() time.Time
	Logger     *slog.Logger
}

// A Store has the checkpoints.
type Store interface {
	Attend(ctx context.Context, a store.Attend) (store.Attended, error)
}

// A Checkpointer stores how far the partitions of an inbox are. But for Do and Resume it belongs to one
// goroutine.
type Checkpointer struct {
	Partitions map[string]*partition.Partition // ours, by name: for readers, and to add to

	o        Config
	schedule *partition.Schedule // for what may be begun once that is noted
	types    knownTypes
	begins   beginnings
	book
}

// A book is what is known until the group is left.
type book struct {
	session string
	notes   int                // names given
	server  string             // on which partitions were occupied
	moved   bool               // the database is not where it was, or was rewound: begin anew
	patient bool               // others may still be leaving: Run waits for them a little
	left    []store.Checkpoint // of partitions that were lost, to be stored
	at      time.Time          // when to store again
	fails   int                // in a row
	shut    time.Time          // not before, after a failure
	looked  time.Time
	fetches int               // that brought something
	waiting []broker.Delivery // received, and not in their partitions yet
	// whose heads wait until they are noted: nothing is begun that the database does not know of
	beyond []*partition.Chain
}

// New is a Checkpointer that has no partitions. Chains that waited until more was noted go into s.
func New(o Config, s *partition.Schedule) *Checkpointer {
	c := &Checkpointer{o: o, schedule: s, Partitions: map[string]*partition.Partition{}}
	c.forget(true)
	return c
}

// A Call is what is to be asked of the store; it is done beside what else goes on.
type Call struct {
	session, note, server string
	look                  bool
	occupy                []*partition.Partition
	advance               []*partition.Partition // of those that are stored, the first ones
	checkpoints           []store.Checkpoint
	left                  int // of checkpoints, those of partitions that were lost: the last ones
	beat                  *beat
	was                   store.Attended // the answer
	Err                   error
}

// Next says what is to be asked now, and when to look again if nothing is.
func (c *Checkpointer) Next(now time.Time) (e Call, wait time.Duration, some bool) {
	if now.Before(c.shut) {
		return e, c.shut.Sub(now), false
	}
	wait, e = time.Hour, Call{session: c.session, note: c.stamp(), server: c.server}
	for _, l := range c.byName() {
		switch d := c.patience(l, now); {
		case l.Open:
		case l.Was == nil, d > 0 && now.Sub(l.Looked) >= graceLook:
			e.look = true
		case d == 0:
			e.occupy = append(e.occupy, l)
		default:
			wait = min(wait, graceLook)
		}
	}
	if e.look {
		e.occupy = nil // which is another call: nothing is occupied by a look
	}
	for _, l := range e.occupy {
		e.checkpoints = append(e.checkpoints,
			store.Checkpoint{Partition: l.Name, Origin: l.Origin, Position: l.At})
	}
	if e.look || len(e.occupy) > 0 {
		c.notes++
		return e, 0, true
	}
	urgent := c.Urgent()
	if !urgent {
		if e.beat = c.beat(now); e.beat != nil {
			return e, 0, true
		}
	}
	if urgent || !now.Before(c.at) {
		c.toStore(&e)
	}
	switch {
	case len(e.checkpoints) > 0:
		c.notes++
		return e, 0, true
	case c.patient && now.Sub(c.looked) >= LookPartitions:
		e.look = true
		return e, 0, true
	}
	wait = min(wait, c.types.told.Add(tellKinds).Sub(now))
	if d := c.at.Sub(now); d > 0 && c.dirty() {
		wait = min(wait, d)
	}
	if c.patient {
		wait = min(wait, c.looked.Add(LookPartitions).Sub(now))
	}
	return e, wait, false
}

// Along returns a look that a claim makes along with itself. Returns false while another call is due, or a
// look was made a moment ago.
func (c *Checkpointer) Along(now time.Time) (e Call, due bool) {
	if !c.patient || now.Before(c.shut) || now.Sub(c.looked) < LookPartitions/2 || len(c.waiting) > 0 ||
		c.dirty() || len(c.beyond) > 0 || !c.settled() {
		return e, false
	}
	return Call{session: c.session, note: c.stamp(), server: c.server, look: true}, true
}

// settled reports whether all partitions are occupied.
func (c *Checkpointer) settled() bool {
	for _, l := range c.Partitions {
		if !l.Open {
			return false
		}
	}
	return true
}

// Answer notes what another call of the store answered to e.
func (e *Call) Answer(was store.Attended, err error) { e.was, e.Err = was, err }

func (c *Checkpointer) byName() []*partition.Partition {
	out := make([]*partition.Partition, 0, len(c.Partitions))
	for _, l := range c.Partitions {
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b *partition.Partition) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// patience is how long whoever had the partition before may still take to say that it left in peace.
func (c *Checkpointer) patience(l *partition.Partition, now time.Time) time.Duration {
	if !c.patient || l.Was == nil || !l.Foreign ||
		c.o.Member != "" && strings.HasPrefix(l.Was.Session, c.ours()) {
		return 0 // under our name there is nobody any more who could say so
	}
	return max(0, l.Since.Add(grace).Sub(now))
}

func (c *Checkpointer) dirty() bool {
	for _, l := range c.Partitions {
		if l.Dirty() {
			return true
		}
	}
	return len(c.left) > 0
}

// toStore adds to e what is to be stored: of partitions that are dirty, and of those that were lost.
func (c *Checkpointer) toStore(e *Call) {
	for _, l := range c.byName() {
		if l.Dirty() {
			e.advance = append(e.advance, l)
			e.checkpoints = append(e.checkpoints, c.next(l))
		}
	}
	e.left = len(c.left)
	e.checkpoints = append(e.checkpoints, c.left...)
}

// Do does e. It may be called beside all else.
func (c *Checkpointer) Do(ctx context.Context, e Call) Call {
	ask := store.Attend{Consumer: c.o.Group}
	switch {
	case e.beat != nil:
		ask.Beat = &store.Beat{Own: e.beat.own, Forget: e.beat.forget, Progress: e.beat.progress}
	case e.look:
	default:
		ask.Take, ask.Session = len(e.occupy) > 0, e.session
		ask.Server, ask.Stamp, ask.Checkpoints = e.server, e.note, e.checkpoints
	}
	if e.was, e.Err = c.o.DB.Attend(ctx, ask); e.beat != nil {
		e.beat.all = e.was.Kinds
	}
	return e
}

// Types tells whether e is about types, not about positions.
func (e *Call) Types() bool { return e.beat != nil }

// Nothing of a partition is begun before the database knows how far it may be: a process that dies leaves
// behind what it may have been at. That is noted in advance, for what is begun until the next time and no
// more: whatever lies below is suspected where it happens twice.

// Wait puts chain aside until its head may be begun.
func (c *Checkpointer) Wait(chain *partition.Chain) {
	if l, behind := chain.Partition, chain.Queue[0].Position+1; l.Wanted == 0 || behind < l.Wanted {
		l.Wanted = behind
	}
	c.beyond = append(c.beyond, chain)
}

// Urgent tells whether nothing can be begun before more is noted.
func (c *Checkpointer) Urgent() bool {
	return c.schedule.Len() == 0 && slices.ContainsFunc(c.beyond, func(chain *partition.Chain) bool {
		return !chain.Partition.Lost && chain.Partition.Open
	})
}

// next returns the checkpoint to store of a partition. Its front has room for the messages that may begin
// before the next checkpoint. If nothing has begun, the front includes the waiting messages. Otherwise a
// message far ahead would make all messages before it suspects.
func (c *Checkpointer) next(l *partition.Partition) store.Checkpoint {
	s, front := *l.Checkpoint, max(l.Front, l.At)
	if c.schedule.Len() == 0 || l.Begun == 0 {
		front = max(front, l.Wanted)
	}
	s.Position, s.Session = l.At, c.session
	s.InFlightEnd = max(s.InFlightEnd, front+int64(max(leastRoom, c.o.Batch, l.Begun+l.Begun/2)))
	return s
}

// noted takes up what waited, if it may be begun now.
func (c *Checkpointer) noted() {
	for _, chain := range c.beyond {
		chain.Partition.Wanted = 0
		c.schedule.Add(chain)
	}
	c.beyond = nil
}
