package inbox

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/store"
)

const (
	lookEvery = time.Second     // for what others parked, or an operator freed
	lookIdle  = 5 * time.Second // the same, where nothing was found for long
	// how old what Health says of parked messages may be, while Run is busy
	tellKept  = 250 * time.Millisecond
	tellShare = 100 // where that is long to count, it takes this part of the time
	// the same, where only others may have changed it, and no partition waits for them
	tellOther = 400
	tellMost  = 5 * time.Minute // bounds both: one slow count must not end the counting

	// at once, to share transactions: where the process dies twice, each of them is taken alone; as many more
	// may ride
	mostClaimed = 1000
)

// A shelf is what an inbox knows of the messages that the store keeps for it. It belongs to the goroutine of
// Run or Step.
type parkedQueue struct {
	partition *partition.Partition      // of what was claimed; no partition of the broker's, and never acknowledged
	claimed   map[*partition.Entry]bool // and not finished
	size      int                       // how many of it may share a transaction
	along     int                       // how many may ride with each key
	riding    int                       // how many did, of what was claimed last
	at        time.Time                 // when to look again
	idle      int                       // looks in a row that found nothing
	changed   bool                      // something was parked or freed since the last count
	counted   time.Time
	some      bool          // at the last count something was kept
	took      time.Duration // the last count

	suspects []*partition.Chain // of what was claimed: a process may have died of them
	alone    *partition.Entry   // of these, the one in hand: nothing else is
}

// newParkedQueue has what is kept counted at once, whoever parked it.
func newParkedQueue() parkedQueue {
	return parkedQueue{partition: partition.New(""), claimed: map[*partition.Entry]bool{}, size: 1, along: 1, changed: true}
}

// A looked answers a look into the store.
type looked struct {
	claimed store.Claimed
	asked   store.ClaimSize
	counted bool
	began   time.Time
	took    time.Duration
	kept    store.Keeping
	stuck   []store.Parked
	err     error
}

func (l *looked) doing() string {
	if l.asked.Keys > 0 {
		return claiming
	}
	return counting
}

// due tells how long to wait for the next look.
func (s *parkedQueue) due(now time.Time) time.Duration { return max(0, s.at.Sub(now)) }

// appetite is how many more messages may be claimed: what waits here for a worker wears its lease out.
// Nothing is claimed while half of that is here.
func (in *Inbox[TTx]) appetite() int {
	most := max(2*in.most(), min(in.o.Workers*in.parkedQueue.size, mostClaimed))
	if in.parkedQueue.riding > 0 {
		most *= 2 // half of it at least was not claimed
	}
	switch wait, alone := in.breaker.closed(in.o.Now()); {
	case wait > 0, in.steering.now.Paused != nil:
		most = 0
	case alone:
		most = 1
	}
	if n := len(in.parkedQueue.claimed); 2*n <= most && in.parkedQueue.bytesClaimed() < in.o.Limits.Bytes/2-store.PageBytes {
		return most - n
	}
	return 0
}

// adapt lets what was claimed share transactions for as long as that goes well: what failed once mostly fails
// again. Nor is so much to be claimed that it waits here for half the time that its lease has for that.
func (s *parkedQueue) adapt(rs []exec.Result, now time.Time, most int) {
	ill := func(r exec.Result) bool {
		return r.Fell || !slices.Contains([]decide.Ending{decide.Handled, decide.Duplicate, decide.Rejected, decide.Barred, decide.Stale, decide.Left}, r.What)
	}
	switch {
	case slices.ContainsFunc(rs, ill):
		s.size = 1
	case now.Sub(rs[0].Entry.Since) > exec.TurnOfClaimed/2:
		s.size = max(1, s.size/2)
	default:
		s.size = max(1, min(2*s.size, most))
		s.along = min(2*s.along+1, most)
	}
}

// look claims what is due, and counts what is kept where that may have changed. It touches nothing of the
// inbox.
func (in *Inbox[TTx]) look(ctx context.Context, session string, most store.ClaimSize, count bool, not []store.Kind) looked {
	l, start := looked{asked: most, counted: count, began: in.o.Now()}, time.Now()
	if most.Keys > 0 {
		l.claimed, l.err = in.db.Claim(ctx, store.Want{Consumer: in.group, Session: session, ClaimSize: most, Lease: in.exec.Lease(exec.TurnOfClaimed), Not: not})
	}
	if l.err == nil && count {
		no := false
		l.stuck, l.err = store.ListKept(ctx, in.db, store.Sought{Consumer: in.group, Failed: true, Dead: &no, Bare: true, Limit: maxStuck})
		if l.err == nil {
			var s store.Status
			s, l.err = in.db.Status(ctx, store.StatusQuery{Keeping: in.group})
			l.kept = s.Keeping
		}
	}
	if l.err != nil {
		l.err = fmt.Errorf("look for parked messages of %s: %w", in.group, l.err)
	}
	l.took = time.Since(start)
	return l
}

// lookNow is a turn's look into the store.
func (in *Inbox[TTx]) lookNow(ctx context.Context) (found bool, err error) {
	most, count, some := in.wants(in.o.Now(), 0)
	if !some {
		return false, nil
	}
	in.parkedQueue.changed = in.parkedQueue.changed && !count
	l := in.look(ctx, in.checkpoints.Session(), most, count, in.checkpoints.Others())
	if err := in.shelve(ctx, l); err != nil {
		return false, err
	}
	return len(l.claimed.Parked) > 0, l.err
}

// wants says what the next look is to do; false: there is no need for one yet.
func (in *Inbox[TTx]) wants(now time.Time, rest time.Duration) (most store.ClaimSize, count, some bool) {
	s := &in.parkedQueue
	if s.due(now) == 0 {
		most = in.portion(max(0, in.appetite()))
	}
	count = s.changed && now.Sub(s.counted) >= rest || s.some && in.recount(now.Sub(s.counted))
	return most, count, most.Keys > 0 || count
}

// recount tells whether to count what others may have parked or freed, that long after the last time.
func (in *Inbox[TTx]) recount(since time.Duration) bool {
	switch {
	case since >= max(lookIdle, in.parkedQueue.share(tellOther)):
		return true
	case since >= max(lookIdle, in.parkedQueue.share(tellShare)):
		return in.crowded()
	}
	return false
}

// share is how long to wait between counts so that they take one part in n of the time.
func (s *parkedQueue) share(n time.Duration) time.Duration { return min(n*s.took, tellMost) }

// crowded tells whether a partition waits for room among what is parked.
func (in *Inbox[TTx]) crowded() bool {
	for _, l := range in.checkpoints.Partitions {
		if l.Full > 0 {
			return true
		}
	}
	return false
}

// take up what a look found.
func (in *Inbox[TTx]) shelve(ctx context.Context, l looked) error {
	s, now := &in.parkedQueue, in.o.Now()
	switch {
	case l.err != nil && store.Incurable(l.err):
		return fmt.Errorf("consumer %s: %w", in.group, l.err)
	case l.err != nil:
		in.did(ctx, l.doing(), l.err)
		if l.counted {
			s.changed, s.counted = true, now
		}
		s.idle = min(s.idle+1, 10)
		s.at = now.Add(backoff.After(s.idle, lookEvery/10, lookIdle))
		return nil
	}
	in.did(ctx, l.doing(), nil)
	if l.asked.Keys > 0 {
		s.next(l, now)
	}
	in.shelveAll(l)
	if l.counted {
		s.counted, s.took, s.some = now, l.took, l.kept.Parked+l.kept.Dead > 0
		in.mu.Lock()
		in.kept, in.stuck = l.kept, stuckOf(l.stuck)
		in.mu.Unlock()
	}
	return nil
}

// next says when to look again: when the next is due that is known of, and now and then for what is not.
func (s *parkedQueue) next(l looked, now time.Time) {
	if len(l.claimed.Parked) == 0 {
		s.idle = min(s.idle+1, 10)
	} else {
		s.idle = 0
	}
	if l.keys() == l.asked.Keys {
		s.at = now
		return
	}
	s.at = now.Add(backoff.After(max(1, s.idle), lookEvery, lookIdle))
	if d := l.claimed.Next; d > 0 {
		s.soon(now.Add(d))
	}
}

// soon has the next look at t, at the latest.
func (s *parkedQueue) soon(t time.Time) {
	if t.Before(s.at) {
		s.at = t
	}
}

// claim makes a chain of its own of a claimed message, and has it taken.
func (in *Inbox[TTx]) claim(p *store.Parked, began time.Time) *partition.Chain {
	e := &partition.Entry{Delivery: broker.Delivery{Message: p.Message, Partition: p.Partition, Position: p.Position}, Parked: p, Given: p.Identity, Since: began, Lease: in.exec.Lease(exec.TurnOfClaimed), Call: p.Call}
	if d := in.delays.of[p.Identity]; d != nil {
		e.Again = d.Attempts
	}
	e.Lonely = in.exec.Calls(store.Kind{Topic: p.Message.Topic, Type: p.Message.Type})
	e.Foreign = !in.exec.Handles(store.Kind{Topic: p.Message.Topic, Type: p.Message.Type})
	e.Chain = &partition.Chain{Partition: in.parkedQueue.partition, Queue: []*partition.Entry{e}, Busy: true}
	in.parkedQueue.claimed[e] = true
	in.schedule.Number(e)
	if e.Alone = p.Claims > exec.Trusted || p.CrashCount > 0; e.Alone {
		in.parkedQueue.suspects = append(in.parkedQueue.suspects, e.Chain)
		return e.Chain
	}
	in.schedule.Add(e.Chain)
	return e.Chain
}

// settleClaimed is settle for a message that was claimed.
func (in *Inbox[TTx]) settleClaimed(r exec.Result, now time.Time) {
	r.Entry.Done = true
	delete(in.parkedQueue.claimed, r.Entry)
	if in.parkedQueue.alone == r.Entry {
		in.parkedQueue.alone = nil
	}
	in.parkedQueue.changed = true
	if !in.exec.Handles(r.Entry.Kind()) {
		in.checkpoints.AskTypes()
	}
	wait := time.Duration(0) // the next of its key
	switch r.What {
	case decide.Later, decide.Failed:
		wait = r.After
	case decide.Again, decide.Outage, decide.Unkept:
		wait = max(r.After, in.o.Retry.First)
	case decide.Stale, decide.Full:
		wait = lookEvery
	}
	in.parkedQueue.soon(now.Add(wait))
}

// handBack lets others claim what was claimed and not begun. What it cannot hand back is claimed when its
// lease is over.
func (in *Inbox[TTx]) handBack(ctx context.Context) {
	var back []store.Effect
	for _, c := range slices.Concat(in.schedule.Heads(), in.parkedQueue.suspects) {
		if e := c.Queue; len(e) > 0 && e[0].Parked != nil && in.parkedQueue.claimed[e[0]] {
			k := in.exec.Parcel(e[0])
			k.Claims = e[0].Parked.Claims - 1 // as if it had not been claimed
			back = append(back, store.Effect{Park: k})
		}
	}
	if len(back) == 0 {
		return
	}
	if _, err := in.db.Apply(ctx, back...); err != nil {
		in.o.Logger.WarnContext(ctx, "inbox: hand claimed messages back", "consumer", in.group, "messages", len(back), "error", err)
	}
}
