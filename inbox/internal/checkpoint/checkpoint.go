// Package checkpoint stores the progress of a consumer's partitions: the position below which all messages
// are finished, and the end of the messages that may be in progress. It occupies gained partitions. It
// detects that the database was restored, or the consumer rewound. And it reads which types other builds of
// the consumer handle, because all other types are skipped.
//
// Next returns the Call that is due. Do makes it, possibly in another goroutine. Done applies its answer.
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
	noteEvery = 50 * time.Millisecond // between two checkpoints of a partition
	// LookPartitions is the longest time until an idle inbox notices a rewind or an order to pause.
	LookPartitions = 8 * time.Second
	grace          = 400 * time.Millisecond // for the last owner to store that it left the partition cleanly
	graceLook      = 25 * time.Millisecond  // between two looks for that
	// leastRoom is how many positions may begin before the next checkpoint, or Config.Batch if that is more.
	leastRoom = 2
)

// Config has the settings of a Checkpointer.
type Config struct {
	Group  string // the consumer
	Member string // Options.Instance.Member; "": none
	DB     Store

	Kinds   func() []store.Kind   // the types that this build handles
	Handles func(store.Kind) bool // reports whether this build handles a type

	Batch      int           // messages that share a transaction at the beginning
	RetryFirst time.Duration // the first pause after a failure
	Now        func() time.Time
	Logger     *slog.Logger
}

// Store stores and returns the checkpoints.
type Store interface {
	SyncConsumer(ctx context.Context, a store.SyncRequest) (store.SyncResult, error)
}

// Checkpointer stores the progress of an inbox's partitions. All methods except Do and Resume belong to one
// goroutine.
type Checkpointer struct {
	Partitions map[string]*partition.Partition // of this process, by name

	o        Config
	schedule *partition.Schedule // gets the chains that waited for a checkpoint
	types    knownTypes
	begins   beginnings
	book
}

// book is the state that is cleared when the consumer leaves its group.
type book struct {
	session string
	notes   int                // number of stamps
	server  string             // the run of the database server that has our partitions
	moved   bool               // the database was restored, or the consumer rewound: join again
	patient bool               // Run waits a little for the last owners of partitions; Step does not
	left    []store.Checkpoint // of lost partitions, to be stored
	at      time.Time          // when to store again
	fails   int                // in a row
	shut    time.Time          // no call before, after a failure
	looked  time.Time          // the last look
	fetches int                // number of fetches with deliveries
	waiting []broker.Delivery  // received, and not in their partitions yet
	beyond  []*partition.Chain // chains with heads beyond the stored checkpoint
}

// New returns a Checkpointer without partitions. Chains that waited for a checkpoint go into s.
func New(o Config, s *partition.Schedule) *Checkpointer {
	c := &Checkpointer{o: o, schedule: s, Partitions: map[string]*partition.Partition{}}
	c.forget(true)
	return c
}

// Call is a call of the store. It may run in another goroutine.
type Call struct {
	session, note, server string
	look                  bool
	occupy                []*partition.Partition
	advance               []*partition.Partition // of the first checkpoints
	checkpoints           []store.Checkpoint
	left                  int // how many of checkpoints, at their end, are of lost partitions
	beat                  *beat
	was                   store.SyncResult // the answer
	Err                   error
}

// Next returns the call that is due, or false and the time until the next one.
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
		e.occupy = nil // a look does not occupy partitions
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

// Along returns a look that a claim can make in its own transaction. It returns false while another call is
// due, or if the last look is less than LookPartitions/2 ago.
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

// Answer notes the answer to e, if a claim made it.
func (e *Call) Answer(was store.SyncResult, err error) { e.was, e.Err = was, err }

func (c *Checkpointer) byName() []*partition.Partition {
	out := make([]*partition.Partition, 0, len(c.Partitions))
	for _, l := range c.Partitions {
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b *partition.Partition) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// patience returns how long the last owner of l may still take to store that it left cleanly.
func (c *Checkpointer) patience(l *partition.Partition, now time.Time) time.Duration {
	if !c.patient || l.Was == nil || !l.Foreign ||
		c.o.Member != "" && strings.HasPrefix(l.Was.Session, c.ours()) {
		return 0 // the last owner was an earlier process with the same member name
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

// toStore adds the checkpoints of dirty and of lost partitions to e.
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

// Do makes the call e. It is safe for concurrent use.
func (c *Checkpointer) Do(ctx context.Context, e Call) Call {
	ask := store.SyncRequest{Consumer: c.o.Group}
	switch {
	case e.beat != nil:
		ask.Heartbeat = &store.Heartbeat{Own: e.beat.own, Forget: e.beat.forget, Progress: e.beat.progress}
	case e.look:
	default:
		ask.Take, ask.Session = len(e.occupy) > 0, e.session
		ask.Server, ask.Stamp, ask.Checkpoints = e.server, e.note, e.checkpoints
	}
	if e.was, e.Err = c.o.DB.SyncConsumer(ctx, ask); e.beat != nil {
		e.beat.all = e.was.Kinds
	}
	return e
}

// Types reports whether e is about types, not about positions.
func (e *Call) Types() bool { return e.beat != nil }

// A message begins only below InFlightEnd of the stored checkpoint. So after a crash the next owner can tell
// which messages may have been in progress. InFlightEnd is only a little ahead, because all messages below it
// are suspects after a second crash.

// Wait keeps chain until its head may begin.
func (c *Checkpointer) Wait(chain *partition.Chain) {
	if l, behind := chain.Partition, chain.Queue[0].Position+1; l.Wanted == 0 || behind < l.Wanted {
		l.Wanted = behind
	}
	c.beyond = append(c.beyond, chain)
}

// Urgent reports whether no message can begin before the next checkpoint.
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

// noted puts the waiting chains back into the schedule.
func (c *Checkpointer) noted() {
	for _, chain := range c.beyond {
		chain.Partition.Wanted = 0
		c.schedule.Add(chain)
	}
	c.beyond = nil
}
