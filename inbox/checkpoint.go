package inbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/store"
)

const (
	noteEvery      = 50 * time.Millisecond  // how old what the database says of positions may be
	lookPartitions = 5 * time.Second        // how often an idle inbox looks whether it was rewound
	grace          = 400 * time.Millisecond // in which whoever had a partition says that it left in peace
	graceLook      = 25 * time.Millisecond  // how often whoever had a partition is looked for meanwhile
	// positions that may be begun before they are noted; as many as share a transaction, if that is more
	leastRoom = 2
)

// A book is what an inbox stores of its partitions. It belongs to the goroutine of Run or Step.
type checkpointer struct {
	member  string // our name at the broker
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

// An store call is what is to be asked of the store about partitions; it is done beside what else goes on.
type storeCall struct {
	session, note, server string
	look                  bool
	occupy                []*partition.Partition
	advance               []*partition.Partition // of those that are stored, the first ones
	checkpoints           []store.Checkpoint
	left                  int // of checkpoints, those of partitions that were lost: the last ones
	beat                  *beat
	was                   store.Attended // the answer
	err                   error
}

// store call says what is to be asked now, and when to look again if nothing is.
func (in *Inbox[TTx]) storeCall(now time.Time) (e storeCall, wait time.Duration, some bool) {
	g := &in.checkpointer
	if now.Before(g.shut) {
		return e, g.shut.Sub(now), false
	}
	wait, e = time.Hour, storeCall{session: g.session, note: g.session + "-" + strconv.Itoa(g.notes), server: g.server}
	for _, l := range in.byName() {
		switch d := g.patience(l, now); {
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
		e.occupy = nil // which is another store call: nothing is occupied by a look
	}
	for _, l := range e.occupy {
		e.checkpoints = append(e.checkpoints, store.Checkpoint{Partition: l.Name, Origin: l.Origin, Position: l.At})
	}
	if e.look || len(e.occupy) > 0 {
		g.notes++
		return e, 0, true
	}
	urgent := in.urgent()
	if !urgent {
		if e.beat = in.beat(now); e.beat != nil {
			return e, 0, true
		}
	}
	if urgent || !now.Before(g.at) {
		in.toStore(&e)
	}
	switch {
	case len(e.checkpoints) > 0:
		g.notes++
		return e, 0, true
	case g.patient && now.Sub(g.looked) >= lookPartitions:
		e.look = true
		return e, 0, true
	}
	wait = min(wait, in.knownTypes.told.Add(tellKinds).Sub(now))
	if d := g.at.Sub(now); d > 0 && in.dirty() {
		wait = min(wait, d)
	}
	if g.patient {
		wait = min(wait, g.looked.Add(lookPartitions).Sub(now))
	}
	return e, wait, false
}

func (in *Inbox[TTx]) byName() []*partition.Partition {
	out := make([]*partition.Partition, 0, len(in.partitions))
	for _, l := range in.partitions {
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b *partition.Partition) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// patience is how long whoever had the partition before may still take to say that it left in peace.
func (g *checkpointer) patience(l *partition.Partition, now time.Time) time.Duration {
	if !g.patient || l.Was == nil || !l.Foreign || g.member != "" && strings.HasPrefix(l.Was.Session, g.ours()) {
		return 0 // under our name there is nobody any more who could say so
	}
	return max(0, l.Since.Add(grace).Sub(now))
}

func (in *Inbox[TTx]) dirty() bool {
	for _, l := range in.partitions {
		if l.Dirty() {
			return true
		}
	}
	return len(in.checkpointer.left) > 0
}

// toStore adds to e what is to be stored: of partitions that are dirty, and of those that were lost.
func (in *Inbox[TTx]) toStore(e *storeCall) {
	for _, l := range in.byName() {
		if l.Dirty() {
			e.advance = append(e.advance, l)
			e.checkpoints = append(e.checkpoints, in.next(l))
		}
	}
	e.left = len(in.checkpointer.left)
	e.checkpoints = append(e.checkpoints, in.checkpointer.left...)
}

// goFor does an store call. It touches nothing of the inbox.
func (in *Inbox[TTx]) goFor(ctx context.Context, e storeCall) storeCall {
	ask := store.Attend{Consumer: in.group}
	switch {
	case e.beat != nil:
		ask.Beat = &store.Beat{Own: e.beat.own, Forget: e.beat.forget, Progress: e.beat.progress}
	case e.look:
	default:
		ask.Take, ask.Session = len(e.occupy) > 0, e.session
		ask.Server, ask.Stamp, ask.Checkpoints = e.server, e.note, e.checkpoints
	}
	if e.was, e.err = in.db.Attend(ctx, ask); e.beat != nil {
		e.beat.all = e.was.Kinds
	}
	return e
}

func (e *storeCall) doing() string {
	if e.beat != nil {
		return knowingTypes
	}
	return noting
}

// done takes up what an store call found. An error stops the consumer.
func (in *Inbox[TTx]) done(ctx context.Context, e storeCall) error {
	g, now := &in.checkpointer, in.o.Now()
	in.did(ctx, e.doing(), e.err)
	if e.err != nil {
		for _, l := range e.advance {
			l.Trying = append(l.Trying, e.note)
		}
		if store.Incurable(e.err) {
			return fmt.Errorf("consumer %s: %w", in.group, e.err)
		}
		if e.beat != nil {
			in.knownTypes.since, in.knownTypes.again, in.knownTypes.acked = time.Time{}, true, in.knownTypes.acked || e.beat.progress
		}
		g.fails++
		g.shut = now.Add(backoff.After(g.fails, in.o.Retry.First, failure.MostOutage))
		return nil
	}
	if g.fails = 0; e.beat != nil {
		in.enrolled(*e.beat)
		return nil
	}
	g.looked, in.seenOn = now, e.was.Server
	in.steer(ctx, e.was.Checkpoints)
	defer in.noted()
	if g.server != "" && g.server != e.was.Server {
		g.moved = true
		return nil
	}
	switch {
	case len(e.occupy) > 0:
		in.occupied(ctx, e, now)
	default:
		in.compare(e, now)
		g.left = g.left[e.left:]
		for i := range g.left { // lost meanwhile
			if at := slices.IndexFunc(e.checkpoints, func(s store.Checkpoint) bool { return s.Partition == g.left[i].Partition && s.Stamp == g.left[i].Stamp }); at >= 0 {
				g.left[i].Stamp = e.note
			}
		}
		if !e.look {
			g.at = now.Add(noteEvery)
		}
	}
	return nil
}

// occupied opens partitions.
func (in *Inbox[TTx]) occupied(ctx context.Context, e storeCall, now time.Time) {
	g := &in.checkpointer
	if !in.begins.stand(e) {
		g.moved = true
		return
	}
	g.server = e.was.Server
	for _, l := range e.occupy {
		s, there := checkpointOf(e.was, l.Name)
		if !there || s.Origin != l.Origin {
			s = store.Checkpoint{Partition: l.Name, Origin: l.Origin, Position: -1}
		}
		s.Session, s.Stamp = g.session, e.note
		l.Checkpoint, l.Trying, l.Open, l.Server, l.Session = &s, nil, true, g.server, g.session
		l.At = max(l.At, s.Position)
		if l.Foreign {
			in.parkedQueue.soon(now) // what was in hand in the store is due
			l.Suspects, l.Redelivered, l.Tried = s.CrashSuspect, l.Origin == "", map[string]bool{}
			in.o.Logger.WarnContext(ctx, "inbox: a partition was left uncleanly", "consumer", in.group, "partition", l.Name, "by", l.Was.Session,
				"from", s.Position, "to", s.InFlightEnd, "suspected_to", s.CrashSuspect)
		}
	}
	g.at = now.Add(noteEvery)
}

// compare looks how partitions stand: as they were stored, or not.
func (in *Inbox[TTx]) compare(e storeCall, now time.Time) {
	g := &in.checkpointer
	sent := map[*partition.Partition]store.Checkpoint{}
	for i, l := range e.advance {
		sent[l] = e.checkpoints[i]
	}
	for _, l := range in.byName() {
		s, there := checkpointOf(e.was, l.Name)
		if l.Shared {
			continue // an older build may have left a row of it
		}
		if !l.Open {
			l.Was, l.Looked = &s, now
			l.Foreign = s.Session != "" && s.Session != g.session
			continue
		}
		next, stored := sent[l]
		switch {
		case there && stored && s.Stamp == e.note:
			next.Stamp, next.At = e.note, s.At
			l.Checkpoint, l.Trying, l.Begun = &next, nil, 0
		case there && (s.Stamp == l.Checkpoint.Stamp || slices.Contains(l.Trying, s.Stamp)):
			// as before, or the answer was lost
			l.Checkpoint.Stamp, l.Checkpoint.Position, l.Checkpoint.InFlightEnd = s.Stamp, s.Position, s.InFlightEnd
			if stored {
				l.Trying = nil
			}
		case there && (s.Session != "" && s.Session != g.session || l.Visited(s, g.session)):
			// a rival has it, or had; the broker knows better
			l.Open, l.Was, l.Foreign, l.Since, l.Looked = false, &s, s.Session != "", now, now
		case there || l.Origin != "":
			g.moved = true
		}
	}
}

// storeCalls does what is to be asked until nothing is: for Step, which has nothing beside it.
func (in *Inbox[TTx]) storeCalls(ctx context.Context) error {
	for range 5 {
		e, _, some := in.storeCall(in.o.Now())
		if !some || in.checkpointer.moved {
			return nil
		}
		if err := in.done(ctx, in.goFor(ctx, e)); err != nil {
			return err
		}
	}
	return nil
}

// admissible takes out of what waits what may be put into its partition.
func (in *Inbox[TTx]) admissible() []broker.Delivery {
	g := &in.checkpointer
	held := map[string]bool{} // partitions of which something must wait: what is behind it waits, too
	var now, kept []broker.Delivery
	for i := range g.waiting {
		d := &g.waiting[i]
		l := in.partitions[d.Partition]
		waits := l != nil && !l.Open || held[d.Partition] || in.undecided(*d)
		if waits && kept == nil { // as a rule nothing does, and nothing is copied
			now = slices.Clone(g.waiting[:i])
		}
		switch {
		case waits:
			held[d.Partition] = true
			kept = append(kept, *d)
		case kept != nil:
			now = append(now, *d)
		}
	}
	if kept == nil {
		now = g.waiting
	}
	g.waiting = kept
	return now
}

// parts has it stored of a partition that was lost that it was left in peace.
func (in *Inbox[TTx]) parts(l *partition.Partition) {
	if l.Open && !l.Shared && len(l.Trying) == 0 {
		s := *l.Checkpoint
		s.Position, s.Session = l.At, ""
		in.checkpointer.left = append(in.checkpointer.left, s)
		in.checkpointer.at = time.Time{}
	}
}

// ours is what the sessions of all that have our name at the broker begin with.
func (g *checkpointer) ours() string {
	if g.member != "" {
		return g.member + ":"
	}
	return ""
}

// reset forgets all partitions. A life that has ended is not taken up again.
func (g *checkpointer) reset(ended bool) {
	next := checkpointer{member: g.member, session: g.session, notes: g.notes, patient: g.patient, fetches: g.fetches + 1}
	if ended {
		next.session = g.ours() + rand.Text()
	}
	*g = next
}
