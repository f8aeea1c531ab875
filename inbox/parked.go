// This file claims parked messages that are due, together with the messages directly behind them. It limits
// each claim and counts the parked messages.
//
// A claimed message becomes an entry in a chain of its own, and the schedule treats it like the others. If a
// process may have died of the message before, it is a suspect: it runs while nothing else is in progress.

package inbox

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox/internal/checkpoint"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

// at once, to share transactions: where the process dies twice, each of them is taken alone; as many more may
// ride
const mostClaimed = 1000

// A queue is what an inbox knows of the messages that the store keeps for it. But for Look it belongs to one
// goroutine.
type queue[TTx any] struct {
	in  *Inbox[TTx]
	log *slog.Logger // names the consumer
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
	admits    column.Page               // of admitted messages
	counted   time.Time
	some      bool          // at the last count something was kept
	took      time.Duration // the last count

	suspects []*partition.Chain // of what was claimed: a process may have died of them
	alone    *partition.Entry   // of these, the one in hand: nothing else is

	hung map[store.Identity]bool // handlers that ignore that their context ended
}

// newQueue returns a queue without claimed messages. Its first look counts the parked messages of all
// instances.
func newQueue[TTx any](in *Inbox[TTx]) *queue[TTx] {
	q := &queue[TTx]{in: in, log: in.o.Logger.With("consumer", in.group), unhandled: backoff.Seldom()}
	q.Clear()
	return q
}

// lease is how long a claim is ours.
func (q *queue[TTx]) lease() time.Duration { return q.in.exec.Lease(exec.TurnOfClaimed) }

// Clear forgets what was claimed.
func (q *queue[TTx]) Clear() {
	q.shelf = shelf{partition: partition.New(""), claimed: map[*partition.Entry]bool{}, size: 1, along: 1,
		changed: true}
}

// Size is how many of what was claimed may share a transaction.
func (q *queue[TTx]) Size() int { return q.size }

// Claimed is how many were claimed and are not finished.
func (q *queue[TTx]) Claimed() int { return len(q.claimed) }

// Appetite is how many more messages may be claimed where so many jobs may be in hand, and at most limit:
// what waits here for a worker wears its lease out. Nothing is claimed while half of that is here.
func (q *queue[TTx]) Appetite(jobs, limit int) int {
	most := max(2*jobs, min(q.in.o.Workers*q.size, mostClaimed))
	if q.riding > 0 {
		most *= 2 // half of it at least was not claimed
	}
	most = min(most, limit)
	n := q.count(func(e *partition.Entry) bool { return !q.hangs(e) })
	if 2*n <= most && q.bytes() < q.in.o.Limits.Bytes/2-store.PageBytes {
		return most - n
	}
	return 0
}

// Hang notes which handlers ignore that their context ended. A suspect among them runs alone no longer.
func (q *queue[TTx]) Hang(ids map[store.Identity]bool) {
	q.hung = ids
	if q.alone != nil && q.hangs(q.alone) {
		q.log.Warn("inbox: others go on next to a message that ran alone: its handler does not return",
			"topic", q.alone.Topic, "id", q.alone.ID, "type", q.alone.Type)
		q.alone = nil
	}
}

func (q *queue[TTx]) hangs(e *partition.Entry) bool { return len(q.hung) > 0 && q.hung[e.Identity()] }

// count returns how many claimed messages are so.
func (q *queue[TTx]) count(so func(*partition.Entry) bool) (n int) {
	for e := range q.claimed {
		if so(e) {
			n++
		}
	}
	return n
}

// bytes is what the messages take that were claimed.
func (q *queue[TTx]) bytes() (n int) {
	for e := range q.claimed {
		n += e.Weight()
	}
	return n
}

// Adapt lets what was claimed share transactions, most at a time, for as long as that goes well: what failed
// once mostly fails again. Nor is so much to be claimed that it waits here for half the time that its lease
// has for that.
func (q *queue[TTx]) Adapt(rs []exec.Result, most int) {
	well := []decide.Ending{decide.Handled, decide.Duplicate, decide.Rejected, decide.Barred, decide.Stale,
		decide.Left}
	ill := func(r exec.Result) bool { return r.Fell || !slices.Contains(well, r.What) }
	switch {
	case slices.ContainsFunc(rs, ill):
		q.size = 1
	case q.in.o.Now().Sub(rs[0].Entry.Since) > exec.TurnOfClaimed/2:
		q.size = max(1, q.size/2)
	default:
		q.size = max(1, min(2*q.size, most))
		q.along = min(2*q.along+1, most)
	}
}

// Suspect is the next one that a process may have died of; nil: there is none. It is in hand from then on.
func (q *queue[TTx]) Suspect() *partition.Entry {
	if len(q.suspects) == 0 {
		return nil
	}
	q.alone = q.suspects[0].Queue[0]
	q.suspects = q.suspects[1:]
	return q.alone
}

// Suspects tells whether a suspect waits for everything else to end, or is in hand, which nothing may be
// beside.
func (q *queue[TTx]) Suspects() (wait, inHand bool) { return len(q.suspects) > 0, q.alone != nil }

// Settle takes a message out that was claimed. Wait is how long it takes until the next of its key is due.
func (q *queue[TTx]) Settle(e *partition.Entry, wait time.Duration) {
	e.Done = true
	delete(q.claimed, e)
	if q.alone == e {
		q.alone = nil
	}
	q.changed = true
	q.Soon(q.in.o.Now().Add(wait))
}

// Unbegun are the messages that were claimed and not begun.
func (q *queue[TTx]) Unbegun() (out []*partition.Entry) {
	for _, c := range slices.Concat(q.in.schedule.Heads(), q.suspects) {
		if e := c.Queue; len(e) > 0 && e[0].Parked != nil && q.claimed[e[0]] {
			out = append(out, e[0])
		}
	}
	return out
}

const (
	// retryLater is the pause before a look for messages that another instance has, or that cannot be parked.
	retryLater = lookEvery

	lookEvery = time.Second               // for what others parked, or an operator freed
	lookIdle  = checkpoint.LookPartitions // the same, where nothing was found for long
	tellIdle  = 30 * time.Second          // the same, to count it
	// how old what is told of parked messages may be, while there is much to do
	tellKept  = 250 * time.Millisecond
	tellShare = 100 // where that is long to count, it takes this part of the time
	// the same, where only others may have changed it, and no partition waits for them
	tellOther = 400
	tellMost  = 5 * time.Minute // bounds both: one slow count must not end the counting

	mostFailed = 100 // that failed, and are named
)

// A looked answers a look into the store.
type looked struct {
	Claimed store.Claimed
	Asked   store.ClaimSize
	Counted bool
	Kept    store.Keeping  // if counted
	Apart   int64          // the same: in quarantine
	Failed  []store.Parked // the same: those that failed
	Err     error
	Along   checkpoint.Call // what the claim read of checkpoints, if Attends
	Attends bool
	began   time.Time
	took    time.Duration
}

// Claims tells whether it was to claim, not to count.
func (l *looked) Claims() bool { return l.Asked.Keys > 0 }

// keys is how many messages were claimed, without those that ride.
func (l *looked) keys() (n int) {
	for i := range l.Claimed.Parked {
		if !l.Claimed.Parked[i].Waiting {
			n++
		}
	}
	return n
}

// Due tells how long to wait for the next look.
func (q *queue[TTx]) Due(now time.Time) time.Duration { return max(0, q.at.Sub(now)) }

// Wants says what the next look is to do; false: there is no need for one yet. Rest is how long not to count
// again what we have changed.
func (q *queue[TTx]) Wants(rest time.Duration) (most store.ClaimSize, count, some bool) {
	now := q.in.o.Now()
	if q.Due(now) == 0 {
		most = q.portion(max(0, q.in.appetite()))
	}
	count = q.changed && now.Sub(q.counted) >= rest || q.some && q.recount(now.Sub(q.counted))
	return most, count, most.Keys > 0 || count
}

// Rest is how long not to count again, while there is much to do.
func (q *queue[TTx]) Rest() time.Duration { return max(tellKept, q.share(tellShare)) }

// Counting says that what is kept is counted from now on: the count may not see what changes after that.
func (q *queue[TTx]) Counting() { q.changed = false }

// Change says that something was parked or freed.
func (q *queue[TTx]) Change() { q.changed = true }

// Changed tells whether something was, since the last count began.
func (q *queue[TTx]) Changed() bool { return q.changed }

// recount reports whether to count the parked messages again, so long after the last count: other instances
// may have parked or freed some.
func (q *queue[TTx]) recount(since time.Duration) bool {
	switch {
	case since >= max(tellIdle, q.share(tellOther)):
		return true
	case since >= max(lookIdle, q.share(tellShare)):
		return crowded(q.in.checkpoints.Partitions)
	}
	return false
}

// share is how long to wait between counts so that they take one part in n of the time.
func (q *queue[TTx]) share(n time.Duration) time.Duration { return min(n*q.took, tellMost) }

// crowded tells whether a partition waits for room among what is parked.
func crowded(all map[string]*partition.Partition) bool {
	for _, l := range all {
		if l.Full > 0 {
			return true
		}
	}
	return false
}

// ask describes one look.
type ask struct {
	Session string
	Most    store.ClaimSize // to claim
	Count   bool            // count the parked messages
	Others  []store.Kind    // types that other builds handle: they are not claimed
	Along   checkpoint.Call // sent in the transaction of the claim, if Attends
	Attends bool
}

// Look claims due messages, and counts parked ones. It may run next to every other method.
func (q *queue[TTx]) Look(ctx context.Context, a ask) looked {
	l, start := looked{Asked: a.Most, Counted: a.Count, Along: a.Along, Attends: a.Attends,
		began: q.in.o.Now()}, time.Now()
	if a.Most.Keys > 0 {
		l.Claimed, l.Err = q.in.db.Claim(ctx, store.Want{Consumer: q.in.group, Session: a.Session,
			ClaimSize: a.Most, Lease: q.lease(), Not: a.Others, Attend: a.Attends})
		l.Along.Answer(l.Claimed.Attended, l.Err)
	}
	if count := a.Count; l.Err == nil && count {
		no := false
		l.Failed, l.Err = store.ListKept(ctx, q.in.db,
			store.Sought{Consumer: q.in.group, Failed: true, Dead: &no,
				Bare: true, Limit: mostFailed})
		if l.Err == nil {
			var s store.Status
			s, l.Err = q.in.db.Status(ctx, store.StatusQuery{Keeping: q.in.group})
			l.Kept, l.Apart = s.Keeping, s.Quarantined
		}
	}
	if l.Err != nil {
		l.Err = fmt.Errorf("look for parked messages of %s: %w", q.in.group, l.Err)
	}
	l.took = time.Since(start)
	return l
}

// Take takes up what a look found. It returns what is to be given back: messages that have failed, beyond
// those that may be here.
func (q *queue[TTx]) Take(l looked) (back []*partition.Entry) {
	now := q.in.o.Now()
	if l.Err != nil {
		if l.Counted {
			q.changed, q.counted = true, now
		}
		q.idle = min(q.idle+1, 10)
		q.at = now.Add(backoff.After(q.idle, lookEvery/10, lookIdle/2))
		return nil
	}
	if l.Claims() {
		q.admitted = l.Claimed.Admitted
		q.next(&l, now)
	}
	back = q.claimAll(&l)
	if l.Counted {
		q.counted, q.took, q.some = now, l.took, l.Kept.Parked+l.Kept.Dead+l.Apart > 0
	}
	return back
}

// next says when to look again: when the next is due that is known of, and now and then for what is not.
func (q *queue[TTx]) next(l *looked, now time.Time) {
	if len(l.Claimed.Parked) == 0 {
		q.idle = min(q.idle+1, 10)
	} else {
		q.idle = 0
	}
	if l.keys() == l.Asked.Keys {
		q.at = now
		return
	}
	q.at = now.Add(min(backoff.After(max(1, q.idle), lookEvery, lookIdle), lookIdle-jitter()))
	if d := l.Claimed.Next; d > 0 {
		q.Soon(now.Add(d))
	}
}

// jitter is how much sooner an idle instance looks, so that several do not look together.
func jitter() time.Duration { return rand.N(lookIdle / 8) }

// Admitted reports whether the last claim saw admitted messages in quarantine.
func (q *queue[TTx]) Admitted() bool { return q.admitted }

// Soon has the next look at t, at the latest.
func (q *queue[TTx]) Soon(t time.Time) {
	if t.Before(q.at) {
		q.at = t
	}
}

// What waits directly behind a claimed message is read along with it, and rides: it is taken in the
// transaction of that one, or is left in the store. So its claim is that of the first, which stands until
// that transaction is over, and a key costs a claim for each transaction instead of one for each message.

// portion is how much to claim where so many messages are wanted. Each key brings what the last ones brought.
func (q *queue[TTx]) portion(limit int) store.ClaimSize {
	along := min(q.along, q.size-1)
	if along <= 0 || limit < 2 || q.in.exec.AsksBeside() {
		return store.ClaimSize{Keys: limit}
	}
	keys := max(1, limit/(1+q.riding))
	return store.ClaimSize{Keys: keys, Prefetch: along, PrefetchAll: max(limit-keys, limit/4)}
}

// learn notes how many came along with each key.
func (q *queue[TTx]) learn(keys, along int, asked store.ClaimSize) {
	switch {
	case keys == 0 || asked.Prefetch == 0:
	case along == asked.PrefetchAll:
		q.riding = 2*q.riding + 1 // and there are more
	default:
		q.riding = (along + keys - 1) / keys
	}
}

// claimAll makes a chain for each key of the claimed messages, together with the later messages of the key
// that were claimed along. It takes only a few of the messages that have failed, and returns the others. It
// also returns messages that this process still runs.
func (q *queue[TTx]) claimAll(l *looked) (back []*partition.Entry) {
	first, along := map[string]*partition.Chain{}, 0
	inHand := q.inHand()
	room := q.in.retries.Most() -
		q.count(func(e *partition.Entry) bool { return e.Troubled() && !q.hangs(e) })
	for i := range l.Claimed.Parked {
		p := &l.Claimed.Parked[i]
		key := string(p.Message.Key)
		c, known := first[key]
		switch known = known && p.Waiting && p.Message.Key != nil; {
		case known && c == nil: // the first of its key goes back
			along++
			continue
		case known:
			q.ride(c, p)
			along++
			continue
		case inHand(p): // its lease ended before its handler did
			e := &partition.Entry{Parked: p, Call: p.Call, Given: p.Identity, Lease: q.lease()}
			back, c = append(back, e), nil
		case partition.Lasting(p, q.in.o.Retry.Uncharged) && !suspected(p) && room <= 0:
			back, c = append(back, &partition.Entry{Parked: p, Call: p.Call, Given: p.Identity}), nil
		default:
			c = q.claim(p, l.began)
		}
		if c != nil && partition.Lasting(p, q.in.o.Retry.Uncharged) {
			room--
		}
		if p.Message.Key != nil {
			first[key] = c
		}
	}
	q.learn(len(l.Claimed.Parked)-along, along, l.Asked)
	return back
}

// inHand returns a function that reports whether a claimed message is in hand here already. A claim that was
// answered since counts from 1 again.
func (q *queue[TTx]) inHand() func(*store.Parked) bool {
	running, claims := q.in.runningNow(), map[store.Identity]int{}
	for e := range q.claimed {
		if !e.Prefetches {
			claims[e.Parked.Identity] = e.Parked.Claims
		}
	}
	return func(p *store.Parked) bool {
		n, here := claims[p.Identity]
		return here && p.Claims > n || running(p)
	}
}

// suspected reports whether a process may have died of p.
func suspected(p *store.Parked) bool { return p.Claims > exec.Trusted || p.CrashCount > 0 }

// entry is p, not in a chain yet.
func (q *queue[TTx]) entry(p *store.Parked) *partition.Entry {
	d := broker.Delivery{Message: p.Message, Partition: p.Partition, Position: p.Position}
	e := &partition.Entry{Delivery: d, Parked: p, Given: p.Identity}
	e.Lasting = partition.Lasting(p, q.in.o.Retry.Uncharged)
	e.Lonely, e.Foreign = q.in.exec.Calls(e.Kind()), !q.in.exec.Handles(e.Kind())
	q.claimed[e] = true
	q.in.schedule.Number(e)
	return e
}

// claim makes a chain of its own of a claimed message, and has it taken.
func (q *queue[TTx]) claim(p *store.Parked, began time.Time) *partition.Chain {
	e := q.entry(p)
	e.Since, e.Lease, e.Call = began, q.lease(), p.Call
	e.Again, e.Refused = q.in.delays.Attempts(p.Identity), q.in.delays.Refused(p.Identity)
	e.Chain = &partition.Chain{Partition: q.partition, Queue: []*partition.Entry{e}, Busy: true}
	if e.Alone = suspected(p); e.Alone {
		q.suspects = append(q.suspects, e.Chain)
		return e.Chain
	}
	q.in.schedule.Add(e.Chain)
	return e.Chain
}

// ride puts p behind the first of its key.
func (q *queue[TTx]) ride(c *partition.Chain, p *store.Parked) {
	h, e := c.Queue[0], q.entry(p)
	e.Chain, e.Prefetches, e.Since, e.Lease = c, true, h.Since, h.Lease
	c.Queue = append(c.Queue, e)
}

// LeaveRiders lets go of what rides behind a message that is finished: its claim is over. False: c has
// nothing that rides.
func (q *queue[TTx]) LeaveRiders(c *partition.Chain) bool {
	if !c.Queue[0].Prefetches {
		return false
	}
	for _, e := range c.Queue {
		delete(q.claimed, e)
	}
	c.Queue = nil
	q.along /= 4 // a job that went well doubles it
	q.Soon(q.in.o.Now())
	return true
}

// appetite is how many more messages may be claimed.
func (in *Inbox[TTx]) appetite() int {
	limit := math.MaxInt
	switch wait, alone := in.breaker.Closed(in.o.Now()); {
	case wait > 0, in.orders.Pause(), in.allStuck != "": // a claim would keep others from the message
		limit = 0
	case alone:
		limit = 1
	}
	return in.parked.Appetite(in.pick.Most(), limit)
}

// lookNow is a turn's look into the store.
func (in *Inbox[TTx]) lookNow(ctx context.Context) (found bool, err error) {
	most, count, some := in.parked.Wants(0)
	if !some {
		return false, nil
	}
	if count {
		in.parked.Counting()
	}
	l := in.parked.Look(ctx, ask{Session: in.checkpoints.Session(), Most: most, Count: count,
		Others: in.checkpoints.Others()})
	if err := in.shelve(ctx, l); err != nil {
		return false, err
	}
	return len(l.Claimed.Parked) > 0 || in.parked.Admitted(), l.Err
}

// shelve takes up what a look found. An error stops the consumer.
func (in *Inbox[TTx]) shelve(ctx context.Context, l looked) error {
	if l.Err != nil && store.Incurable(l.Err) {
		return fmt.Errorf("consumer %s: %w", in.group, l.Err)
	}
	doing := counting
	if l.Claims() {
		doing = claiming
	}
	in.did(ctx, doing, l.Err)
	if l.Err == nil {
		in.facts.store.Answered()
	}
	in.putOff(ctx, in.parked.Take(l))
	if l.Err == nil && l.Counted {
		in.mu.Lock()
		in.kept, in.health.Quarantined, in.stuck = l.Kept, l.Apart, stuckOf(l.Failed)
		in.mu.Unlock()
	}
	return nil
}

// settleClaimed is settle for a message that was claimed.
func (in *Inbox[TTx]) settleClaimed(r exec.Result) {
	if !in.exec.Handles(r.Entry.Kind()) {
		in.checkpoints.AskTypes()
	}
	wait := time.Duration(0) // the next of its key
	switch r.What {
	case decide.Later, decide.Failed, decide.Delayed:
		wait = r.After
	case decide.Again, decide.Outage, decide.Unkept:
		wait = max(r.After, in.o.Retry.InitialInterval)
	case decide.Stale, decide.Full:
		wait = retryLater
	}
	in.parked.Settle(r.Entry, wait)
}

// putOff gives back messages that have failed and were claimed beyond those that may be tried soon: else they
// would be claimed first again, and the others never. Those in hand here keep their claim for one more lease.
func (in *Inbox[TTx]) putOff(ctx context.Context, es []*partition.Entry) {
	var back []store.Effect
	for _, e := range es {
		k := in.exec.Parcel(e)
		k.Claims = e.Parked.Claims - 1 // as if it had not been claimed
		k.WasClaim = &store.Claim{Claims: e.Parked.Claims, Session: e.Parked.Session}
		if k.Due = in.retry.WaitOutage(math.MaxInt32); e.Lease > 0 { // it stays ours
			k.Due, k.Session = e.Lease, e.Parked.Session
		}
		back = append(back, store.Effect{Park: k})
	}
	if len(back) == 0 {
		return
	}
	put := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_, _ = in.db.Apply(ctx, back...) // what it cannot put off is claimed when its lease is over
	}
	if in.checkpoints.Patient() {
		go put()
	} else {
		put()
	}
}

// handBack lets others claim what was claimed and not begun. What it cannot hand back is claimed when its
// lease is over.
func (in *Inbox[TTx]) handBack(ctx context.Context) {
	var back []store.Effect
	for _, e := range in.parked.Unbegun() {
		k := in.exec.Parcel(e)
		k.Claims = e.Parked.Claims - 1 // as if it had not been claimed
		back = append(back, store.Effect{Park: k})
	}
	if len(back) == 0 {
		return
	}
	if _, err := in.db.Apply(ctx, back...); err != nil {
		in.o.Logger.WarnContext(ctx, "inbox: could not hand claimed messages back", "consumer", in.group,
			"messages", len(back), "error", err)
	}
}
