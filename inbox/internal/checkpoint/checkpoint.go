// Package checkpoint stores the progress of a consumer's partitions. A checkpoint has the position below
// which all messages are finished, and the end of the messages that may be in progress.
//
// The package also occupies gained partitions. It detects that the database was restored, or the consumer
// rewound. It reads which types other builds of the consumer handle, because the inbox skips all other types.
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
	graceLook      = 25 * time.Millisecond  // between two reads of the last owner's checkpoint
	// leastRoom is how many messages may start before the next checkpoint. If Config.Batch is larger, that
	// number may start.
	leastRoom = 2
)

// Config has the settings of a Checkpointer.
type Config struct {
	Group  string // the consumer
	Member string // Options.Instance.Member; "" if there is none
	DB     Store

	Kinds   func() []store.Kind   // the types that this build handles
	Handles func(store.Kind) bool // reports whether this build handles a type

	Batch      int           // how many messages share a transaction at the start
	RetryFirst time.Duration // the first pause after a failure
	Now        func() time.Time
	Logger     *slog.Logger
}

// Store stores and returns the checkpoints.
type Store interface {
	SyncConsumer(ctx context.Context, a store.SyncRequest) (store.SyncResult, error)
}

// Checkpointer stores the progress of an inbox's partitions. Only one goroutine may call its methods, except
// Do and Resume.
type Checkpointer struct {
	Partitions map[string]*partition.Partition // the partitions of this process, by name

	o        Config
	schedule *partition.Schedule // receives the chains that waited for a checkpoint
	types    knownTypes
	begins   beginnings
	groupState
}

// groupState is the part of a Checkpointer that is cleared when the consumer leaves its group.
type groupState struct {
	session string
	stamps  int                // number of stamps
	server  string             // the run of the database server when the partitions were opened
	moved   bool               // the database was restored, or the consumer rewound: join again
	patient bool               // see Patient
	left    []store.Checkpoint // checkpoints of lost partitions that must be stored
	at      time.Time          // when to store the next checkpoints
	fails   int                // failed calls in a row
	shut    time.Time          // after a failure, no call before this time
	looked  time.Time          // the time of the last look
	fetches int                // number of fetches with deliveries
	waiting []broker.Delivery  // received deliveries that are not in their partitions yet
	beyond  []*partition.Chain // chains that wait for a checkpoint
}

// New returns a Checkpointer without partitions. Chains that waited for a checkpoint go into s.
func New(o Config, s *partition.Schedule) *Checkpointer {
	c := &Checkpointer{o: o, schedule: s, Partitions: map[string]*partition.Partition{}}
	c.forget(true)
	return c
}

// Call is a call of the store: a look, which only reads, a heartbeat, or a call that stores checkpoints. It
// may run in another goroutine.
type Call struct {
	session, stamp, server string
	look                   bool
	occupy                 []*partition.Partition
	advance                []*partition.Partition // the partitions of the first checkpoints
	checkpoints            []store.Checkpoint
	left                   int // how many of the last checkpoints belong to lost partitions
	heartbeat              *heartbeat
	answer                 store.SyncResult
	Err                    error
}

// Next returns the call that is due. If no call is due, isDue is false, and delay is the time until the next
// call.
func (c *Checkpointer) Next(now time.Time) (e Call, delay time.Duration, isDue bool) {
	if now.Before(c.shut) {
		return e, c.shut.Sub(now), false
	}
	delay, e = time.Hour, Call{session: c.session, stamp: c.stamp(), server: c.server}
	for _, l := range c.byName() {
		switch d := c.patience(l, now); {
		case l.Open:
		case l.Was == nil, d > 0 && now.Sub(l.Looked) >= graceLook:
			e.look = true
		case d == 0:
			e.occupy = append(e.occupy, l)
		default:
			delay = min(delay, graceLook)
		}
	}
	if e.look {
		e.occupy = nil // a look occupies no partitions
	}
	for _, l := range e.occupy {
		e.checkpoints = append(e.checkpoints,
			store.Checkpoint{Partition: l.Name, Origin: l.Origin, Position: l.At})
	}
	if e.look || len(e.occupy) > 0 {
		c.stamps++
		return e, 0, true
	}
	urgent := c.Urgent()
	if !urgent {
		if e.heartbeat = c.nextHeartbeat(now); e.heartbeat != nil {
			return e, 0, true
		}
	}
	if urgent || !now.Before(c.at) {
		c.addDue(&e)
	}
	switch {
	case len(e.checkpoints) > 0:
		c.stamps++
		return e, 0, true
	case c.patient && now.Sub(c.looked) >= LookPartitions:
		e.look = true
		return e, 0, true
	}
	delay = min(delay, c.types.storedAt.Add(storeKindsEvery).Sub(now))
	if d := c.at.Sub(now); d > 0 && c.dirty() {
		delay = min(delay, d)
	}
	if c.patient {
		delay = min(delay, c.looked.Add(LookPartitions).Sub(now))
	}
	return e, delay, false
}

// InClaim returns a look that a claim of parked messages can make in its transaction. It returns isDue false
// if another call is due, or if the last look is less than LookPartitions/2 ago.
func (c *Checkpointer) InClaim(now time.Time) (e Call, isDue bool) {
	if !c.patient || now.Before(c.shut) || now.Sub(c.looked) < LookPartitions/2 || len(c.waiting) > 0 ||
		c.dirty() || len(c.beyond) > 0 || !c.settled() {
		return e, false
	}
	return Call{session: c.session, stamp: c.stamp(), server: c.server, look: true}, true
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

// Answer sets the answer of e, if a claim made the call.
func (e *Call) Answer(was store.SyncResult, err error) { e.answer, e.Err = was, err }

func (c *Checkpointer) byName() []*partition.Partition {
	out := make([]*partition.Partition, 0, len(c.Partitions))
	for _, l := range c.Partitions {
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b *partition.Partition) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// patience returns how much longer to wait for the last owner of l to store that it left the partition
// cleanly.
func (c *Checkpointer) patience(l *partition.Partition, now time.Time) time.Duration {
	if !c.patient || l.Was == nil || !l.Foreign ||
		c.o.Member != "" && strings.HasPrefix(l.Was.Session, c.sessionPrefix()) {
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

// addDue adds the checkpoints of dirty and of lost partitions to e.
func (c *Checkpointer) addDue(e *Call) {
	for _, l := range c.byName() {
		if l.Dirty() {
			e.advance = append(e.advance, l)
			e.checkpoints = append(e.checkpoints, c.nextCheckpoint(l))
		}
	}
	e.left = len(c.left)
	e.checkpoints = append(e.checkpoints, c.left...)
}

// Do makes the call e. It is safe for concurrent use.
func (c *Checkpointer) Do(ctx context.Context, e Call) Call {
	ask := store.SyncRequest{Consumer: c.o.Group}
	switch {
	case e.heartbeat != nil:
		ask.Heartbeat = &store.Heartbeat{Own: e.heartbeat.own, Forget: e.heartbeat.forget,
			Progress: e.heartbeat.progress}
	case e.look:
	default:
		ask.Take, ask.Session = len(e.occupy) > 0, e.session
		ask.Server, ask.Stamp, ask.Checkpoints = e.server, e.stamp, e.checkpoints
	}
	if e.answer, e.Err = c.o.DB.SyncConsumer(ctx, ask); e.heartbeat != nil {
		e.heartbeat.all = e.answer.Kinds
	}
	return e
}

// Types reports whether e is a heartbeat, which is about types and not about positions.
func (e *Call) Types() bool { return e.heartbeat != nil }

// A message starts only below InFlightEnd of the stored checkpoint. So after a crash the next owner can find
// the messages that may have been in progress. InFlightEnd is only a few positions ahead, because after a
// second crash all messages below it are suspects.

// Wait keeps chain until the stored checkpoint covers its first message.
func (c *Checkpointer) Wait(chain *partition.Chain) {
	if l, behind := chain.Partition, chain.Queue[0].Position+1; l.Wanted == 0 || behind < l.Wanted {
		l.Wanted = behind
	}
	c.beyond = append(c.beyond, chain)
}

// Urgent reports whether no message can start before the next checkpoint is stored.
func (c *Checkpointer) Urgent() bool {
	return c.schedule.Len() == 0 && slices.ContainsFunc(c.beyond, func(chain *partition.Chain) bool {
		return !chain.Partition.Lost && chain.Partition.Open
	})
}

// nextCheckpoint returns the next checkpoint of a partition. Its InFlightEnd includes the messages that may
// start before the following checkpoint. If no message has started, InFlightEnd also includes waiting
// messages. Otherwise a message far ahead would make all messages before it suspects.
func (c *Checkpointer) nextCheckpoint(l *partition.Partition) store.Checkpoint {
	s, front := *l.Checkpoint, max(l.Front, l.At)
	if c.schedule.Len() == 0 || l.Begun == 0 {
		front = max(front, l.Wanted)
	}
	s.Position, s.Session = l.At, c.session
	s.InFlightEnd = max(s.InFlightEnd, front+int64(max(leastRoom, c.o.Batch, l.Begun+l.Begun/2)))
	return s
}

// releaseChains puts the chains that wait for a checkpoint back into the schedule.
func (c *Checkpointer) releaseChains() {
	for _, chain := range c.beyond {
		chain.Partition.Wanted = 0
		c.schedule.Add(chain)
	}
	c.beyond = nil
}
