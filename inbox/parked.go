// This file claims parked messages that are due, and prefetches the messages directly behind them. It also
// counts the parked messages. One read of the store, a claim or a count or both, is called a look.
//
// Each claimed message becomes an entry in a chain of its own, and the schedule treats it like other chains.
// A message that may have crashed a process is a suspect: it runs while no other message runs.

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

// mostClaimed bounds the claimed messages in memory that share transactions, because each of them runs alone
// if the process dies twice. As many more may be prefetched.
const mostClaimed = 1000

// queue has the parked messages that this process claimed. Only one goroutine may call its methods, except
// Look.
type queue[TTx any] struct {
	in  *Inbox[TTx]
	log *slog.Logger // has the name of the consumer
	// unhandled is for admitted messages of types without a handler.
	unhandled backoff.LogLimit
	claimState
}

// claimState is the part of a queue that is cleared when the consumer leaves its group.
type claimState struct {
	partition  *partition.Partition      // the partition of claimed messages, which the broker does not have
	claimed    map[*partition.Entry]bool // unfinished messages, claimed or prefetched
	size       int                       // how many claimed messages may share a transaction
	prefetch   int                       // how many messages of each key to prefetch
	prefetched int                       // messages prefetched per key in the last claim
	at         time.Time                 // when the next look is due
	idle       int                       // looks in a row that found nothing
	changed    bool                      // a message was parked or freed since the last count began
	admitted   bool                      // the last claim found admitted messages in quarantine
	admits     column.Page               // of admitted messages
	counted    time.Time                 // time of the last count
	some       bool                      // the last count found messages
	took       time.Duration             // duration of the last count

	suspects []*partition.Chain // claimed messages that may have crashed a process
	alone    *partition.Entry   // the suspect that runs now, alone

	hung map[store.Identity]bool // messages with handlers that ignore the end of their context
}

// newQueue returns a queue without claimed messages. Its first look counts the parked messages of all
// instances.
func newQueue[TTx any](in *Inbox[TTx]) *queue[TTx] {
	q := &queue[TTx]{in: in, log: in.o.Logger.With("consumer", in.group), unhandled: backoff.NewLogLimit()}
	q.Clear()
	return q
}

// lease returns how long a claim lasts.
func (q *queue[TTx]) lease() time.Duration { return q.in.exec.Lease(exec.MaxWaitClaimed) }

// Clear drops the claimed messages.
func (q *queue[TTx]) Clear() {
	q.claimState = claimState{partition: partition.New(""), claimed: map[*partition.Entry]bool{}, size: 1,
		prefetch: 1, changed: true}
}

// Size returns how many claimed messages may share a transaction.
func (q *queue[TTx]) Size() int { return q.size }

// Claimed returns the number of claimed and prefetched messages that are not finished.
func (q *queue[TTx]) Claimed() int { return len(q.claimed) }

// Claimable returns how many more messages may be claimed, at most limit. The workers may have this number
// of jobs. A claimed message that waits uses up its lease. So Claimable returns 0 while this process has
// over half of the possible number.
func (q *queue[TTx]) Claimable(jobs, limit int) int {
	most := max(2*jobs, min(q.in.o.Workers*q.size, mostClaimed))
	if q.prefetched > 0 {
		most *= 2 // at least half of the messages are prefetched, not claimed
	}
	most = min(most, limit)
	n := q.count(func(e *partition.Entry) bool { return !q.hangs(e) })
	if 2*n <= most && q.bytes() < q.in.o.Limits.Bytes/2-store.PageBytes {
		return most - n
	}
	return 0
}

// Hang records the messages with handlers that ignore the end of their context. If the running suspect is one
// of them, other messages may run again.
func (q *queue[TTx]) Hang(ids map[store.Identity]bool) {
	q.hung = ids
	if q.alone != nil && q.hangs(q.alone) {
		q.log.Warn("inbox: other messages run again next to one that ran alone: its handler does not return",
			"topic", q.alone.Topic, "id", q.alone.ID, "type", q.alone.Type)
		q.alone = nil
	}
}

func (q *queue[TTx]) hangs(e *partition.Entry) bool { return len(q.hung) > 0 && q.hung[e.Identity()] }

// count returns how many claimed messages satisfy match.
func (q *queue[TTx]) count(match func(*partition.Entry) bool) (n int) {
	for e := range q.claimed {
		if match(e) {
			n++
		}
	}
	return n
}

// bytes returns how many bytes the claimed messages use in memory.
func (q *queue[TTx]) bytes() (n int) {
	for e := range q.claimed {
		n += e.Weight()
	}
	return n
}

// Adapt doubles the number of claimed messages that share a transaction, up to limit, while no message
// fails. After a failure each message runs alone, because a message that failed will probably fail again. If
// the messages waited here for over half of exec.MaxWaitClaimed, Adapt halves the number.
func (q *queue[TTx]) Adapt(rs []exec.Result, limit int) {
	well := []decide.Ending{decide.Handled, decide.Duplicate, decide.Rejected, decide.Barred, decide.Stale,
		decide.NotAttempted}
	ill := func(r exec.Result) bool { return r.RolledBack || !slices.Contains(well, r.What) }
	switch {
	case slices.ContainsFunc(rs, ill):
		q.size = 1
	case q.in.o.Now().Sub(rs[0].Entry.Since) > exec.MaxWaitClaimed/2:
		q.size = max(1, q.size/2)
	default:
		q.size = max(1, min(2*q.size, limit))
		q.prefetch = min(2*q.prefetch+1, limit)
	}
}

// Suspect returns the next suspect, or nil. From then on no other message may start until the suspect ends.
func (q *queue[TTx]) Suspect() *partition.Entry {
	if len(q.suspects) == 0 {
		return nil
	}
	q.alone = q.suspects[0].Queue[0]
	q.suspects = q.suspects[1:]
	return q.alone
}

// Suspects reports whether a suspect waits for the running messages to end, and whether a suspect runs now.
func (q *queue[TTx]) Suspects() (wait, running bool) { return len(q.suspects) > 0, q.alone != nil }

// Settle removes a claimed message. After delay the next message of its key is due.
func (q *queue[TTx]) Settle(e *partition.Entry, delay time.Duration) {
	e.Done = true
	delete(q.claimed, e)
	if q.alone == e {
		q.alone = nil
	}
	q.changed = true
	q.Soon(q.in.o.Now().Add(delay))
}

// NotBegun returns the claimed messages that no worker has started.
func (q *queue[TTx]) NotBegun() (out []*partition.Entry) {
	for _, c := range slices.Concat(q.in.schedule.Heads(), q.suspects) {
		if e := c.Queue; len(e) > 0 && e[0].Parked != nil && q.claimed[e[0]] {
			out = append(out, e[0])
		}
	}
	return out
}

const (
	// retryLater is the pause before the next look, if another instance has a message or the store refuses to
	// park it.
	retryLater = lookEvery

	lookEvery = time.Second               // between looks for messages that other instances parked or freed
	lookIdle  = checkpoint.LookPartitions // between looks, after looks that found nothing
	countIdle = 30 * time.Second          // between counts, if this process changed nothing
	// countEvery is the shortest pause between two counts, while many messages change.
	countEvery = 250 * time.Millisecond
	countShare = 100 // counting takes at most 1/countShare of the time
	// countOther replaces countShare if only other processes may have changed the count and no partition
	// waits because of it.
	countOther = 400
	countMost  = 5 * time.Minute // the longest pause, so that one slow count does not stop counting

	mostFailed = 100 // failed messages in Health.Stuck
)

// looked is the result of a look.
type looked struct {
	Claimed     store.Claimed
	Asked       store.ClaimSize
	Counted     bool
	Stored      store.ParkedCounts // if Counted: parked messages and dead letters
	Quarantined int64              // if Counted: messages in quarantine
	Failed      []store.Parked     // if Counted: parked messages that failed
	Err         error
	SyncCall    checkpoint.Call // the call for checkpoints that the claim included, if Syncs
	Syncs       bool            // the claim included SyncCall
	began       time.Time
	took        time.Duration
}

// Claims reports whether the look was a claim, not only a count.
func (l *looked) Claims() bool { return l.Asked.Keys > 0 }

// keys returns the number of claimed messages, without the prefetched ones.
func (l *looked) keys() (n int) {
	for i := range l.Claimed.Parked {
		if !l.Claimed.Parked[i].Waiting {
			n++
		}
	}
	return n
}

// Due returns the time until the next look.
func (q *queue[TTx]) Due(now time.Time) time.Duration { return max(0, q.at.Sub(now)) }

// Wants returns the size of the next claim, and whether to count. It returns isDue false if no look is due.
// The parameter interval is the shortest time between two counts after changes of this process.
func (q *queue[TTx]) Wants(interval time.Duration) (most store.ClaimSize, count, isDue bool) {
	now := q.in.o.Now()
	if q.Due(now) == 0 {
		most = q.portion(max(0, q.in.claimable()))
	}
	count = q.changed && now.Sub(q.counted) >= interval || q.some && q.recount(now.Sub(q.counted))
	return most, count, most.Keys > 0 || count
}

// Rest returns the shortest time between two counts after changes of this process, for Run.
func (q *queue[TTx]) Rest() time.Duration { return max(countEvery, q.share(countShare)) }

// Counting records that a count begins. Later changes need another count.
func (q *queue[TTx]) Counting() { q.changed = false }

// Change records that a message was parked or freed.
func (q *queue[TTx]) Change() { q.changed = true }

// Changed reports whether a message was parked or freed since the last count began.
func (q *queue[TTx]) Changed() bool { return q.changed }

// recount reports whether to count again because other instances may have parked or freed messages. The last
// count has this age.
func (q *queue[TTx]) recount(age time.Duration) bool {
	switch {
	case age >= max(countIdle, q.share(countOther)):
		return true
	case age >= max(lookIdle, q.share(countShare)):
		return crowded(q.in.checkpoints.Partitions)
	}
	return false
}

// share returns the pause with which counts take 1/n of the time.
func (q *queue[TTx]) share(n time.Duration) time.Duration { return min(n*q.took, countMost) }

// crowded reports whether a partition waits until more messages may be parked.
func crowded(all map[string]*partition.Partition) bool {
	for _, l := range all {
		if l.Full > 0 {
			return true
		}
	}
	return false
}

// ask has the parameters of a look.
type ask struct {
	Session  string
	Most     store.ClaimSize // to claim
	Count    bool            // count the parked messages
	Others   []store.Kind    // types that other builds handle; do not claim them
	SyncCall checkpoint.Call // a call to make in the transaction of the claim, if Syncs
	Syncs    bool
}

// Look claims due messages and counts parked ones, as a requests. It may run concurrently with all other
// methods.
func (q *queue[TTx]) Look(ctx context.Context, a ask) looked {
	l, start := looked{Asked: a.Most, Counted: a.Count, SyncCall: a.SyncCall, Syncs: a.Syncs,
		began: q.in.o.Now()}, time.Now()
	if a.Most.Keys > 0 {
		l.Claimed, l.Err = q.in.db.Claim(ctx, store.ClaimRequest{Consumer: q.in.group, Session: a.Session,
			ClaimSize: a.Most, Lease: q.lease(), Not: a.Others, Sync: a.Syncs})
		l.SyncCall.Answer(l.Claimed.Sync, l.Err)
	}
	if count := a.Count; l.Err == nil && count {
		no := false
		l.Failed, l.Err = store.ListParked(ctx, q.in.db,
			store.ParkedQuery{Consumer: q.in.group, Failed: true, Dead: &no,
				Bare: true, Limit: mostFailed})
		if l.Err == nil {
			var s store.Status
			s, l.Err = q.in.db.Status(ctx, store.StatusQuery{ParkedOf: q.in.group})
			l.Stored, l.Quarantined = s.Parked, s.Quarantined
		}
	}
	if l.Err != nil {
		l.Err = fmt.Errorf("look for parked messages of %s: %w", q.in.group, l.Err)
	}
	l.took = time.Since(start)
	return l
}

// Take applies the result of a look. It returns the claimed messages to give back: failed messages above the
// limit, and messages that this process still runs.
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
		q.scheduleLook(&l, now)
	}
	back = q.claimAll(&l)
	if l.Counted {
		q.counted, q.took, q.some = now, l.took, l.Stored.Parked+l.Stored.Dead+l.Quarantined > 0
	}
	return back
}

// scheduleLook schedules the next look: when the next known message is due, and at intervals for messages
// that other instances park.
func (q *queue[TTx]) scheduleLook(l *looked, now time.Time) {
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

// jitter returns a random time by which an idle instance looks earlier, so that several instances do not look
// at the same time.
func jitter() time.Duration { return rand.N(lookIdle / 8) }

// Admitted reports whether the last claim found admitted messages in quarantine.
func (q *queue[TTx]) Admitted() bool { return q.admitted }

// Soon moves the next look forward to the time t, if the look is scheduled later.
func (q *queue[TTx]) Soon(t time.Time) {
	if t.Before(q.at) {
		q.at = t
	}
}

// A claim prefetches the messages directly behind a claimed one. The worker handles them in the transaction
// of the claimed message, or leaves them in the store. The claim of the first message covers them until that
// transaction ends. So a key needs one claim for each transaction, not for each message.

// portion returns the size of a claim for at most limit messages. It assumes as many prefetched messages per
// key as in the last claim.
func (q *queue[TTx]) portion(limit int) store.ClaimSize {
	prefetch := min(q.prefetch, q.size-1)
	if prefetch <= 0 || limit < 2 || q.in.exec.HasLegacyDedup() {
		return store.ClaimSize{Keys: limit}
	}
	keys := max(1, limit/(1+q.prefetched))
	return store.ClaimSize{Keys: keys, Prefetch: prefetch, PrefetchAll: max(limit-keys, limit/4)}
}

// countPrefetched records how many messages a claim prefetched per key.
func (q *queue[TTx]) countPrefetched(keys, prefetched int, asked store.ClaimSize) {
	switch {
	case keys == 0 || asked.Prefetch == 0:
	case prefetched == asked.PrefetchAll:
		q.prefetched = 2*q.prefetched + 1 // the claim reached its limit: there are more
	default:
		q.prefetched = (prefetched + keys - 1) / keys
	}
}

// claimAll makes a chain for each key of the claimed messages, with the prefetched messages of that key. It
// keeps only a few of the messages that have failed, and returns the others. It also returns messages that
// this process still runs.
func (q *queue[TTx]) claimAll(l *looked) (back []*partition.Entry) {
	first, prefetched := map[string]*partition.Chain{}, 0
	inProgress := q.inProgress()
	room := q.in.retries.Most() -
		q.count(func(e *partition.Entry) bool { return e.Troubled() && !q.hangs(e) })
	for i := range l.Claimed.Parked {
		p := &l.Claimed.Parked[i]
		key := string(p.Message.Key)
		c, known := first[key]
		switch known = known && p.Waiting && p.Message.Key != nil; {
		case known && c == nil: // claimAll returns the first message of its key
			prefetched++
			continue
		case known:
			q.addPrefetched(c, p)
			prefetched++
			continue
		case inProgress(p): // its lease ended before its handler, or its handler hangs
			e := &partition.Entry{Parked: p, Call: p.Call, Given: p.Identity}
			if !q.hung[p.Identity] { // else another instance may run it
				e.Lease = q.lease()
			}
			back, c = append(back, e), nil
		case partition.Lasting(p, q.in.o.Retry.OutageRetryTime) && !suspected(p) && room <= 0:
			back, c = append(back, &partition.Entry{Parked: p, Call: p.Call, Given: p.Identity}), nil
		default:
			c = q.claim(p, l.began)
		}
		if c != nil && partition.Lasting(p, q.in.o.Retry.OutageRetryTime) {
			room--
		}
		if p.Message.Key != nil {
			first[key] = c
		}
	}
	q.countPrefetched(len(l.Claimed.Parked)-prefetched, prefetched, l.Asked)
	return back
}

// inProgress returns a function that reports whether this process already has a claimed message. Claims is
// larger than before if the message was claimed a second time. It starts from 1 if this process finished the
// message meanwhile.
func (q *queue[TTx]) inProgress() func(*store.Parked) bool {
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

// suspected reports whether p may have crashed a process.
func suspected(p *store.Parked) bool { return p.Claims > exec.TrustedClaims || p.CrashCount > 0 }

// entry returns an entry for p. The caller adds it to a chain.
func (q *queue[TTx]) entry(p *store.Parked) *partition.Entry {
	d := broker.Delivery{Message: p.Message, Partition: p.Partition, Position: p.Position}
	e := &partition.Entry{Delivery: d, Parked: p, Given: p.Identity}
	e.Lasting = partition.Lasting(p, q.in.o.Retry.OutageRetryTime)
	e.NoSharing, e.Foreign = q.in.exec.Calls(e.Kind()), !q.in.exec.Handles(e.Kind())
	q.claimed[e] = true
	q.in.schedule.Number(e)
	return e
}

// claim makes a chain for a claimed message, and adds it to the schedule or the suspects.
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

// addPrefetched adds the prefetched message p to the chain of its key.
func (q *queue[TTx]) addPrefetched(c *partition.Chain, p *store.Parked) {
	h, e := c.Queue[0], q.entry(p)
	e.Chain, e.Prefetches, e.Since, e.Lease = c, true, h.Since, h.Lease
	c.Queue = append(c.Queue, e)
}

// DropPrefetched drops the prefetched messages of c after its claimed message is finished, because the claim
// is over. It returns false if c has none.
func (q *queue[TTx]) DropPrefetched(c *partition.Chain) bool {
	if !c.Queue[0].Prefetches {
		return false
	}
	for _, e := range c.Queue {
		delete(q.claimed, e)
	}
	c.Queue = nil
	q.prefetch /= 4 // a job without a failure doubles it
	q.Soon(q.in.o.Now())
	return true
}

// claimable returns how many more messages may be claimed now.
func (in *Inbox[TTx]) claimable() int {
	limit := math.MaxInt
	switch wait, alone := in.breaker.Restrict(in.o.Now()); {
	case wait > 0, in.orders.Pause(), in.allStuck != "": // a claim would only delay other instances
		limit = 0
	case alone:
		limit = 1
	}
	return in.parked.Claimable(in.pick.Most(), limit)
}

// lookNow makes a look for Step, if one is due.
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
	if err := in.applyLook(ctx, l); err != nil {
		return false, err
	}
	return len(l.Claimed.Parked) > 0 || in.parked.Admitted(), l.Err
}

// applyLook applies the result of a look. An error stops the consumer.
func (in *Inbox[TTx]) applyLook(ctx context.Context, l looked) error {
	if l.Err != nil && store.Incurable(l.Err) {
		return fmt.Errorf("consumer %s: %w", in.group, l.Err)
	}
	doing := counting
	if l.Claims() {
		doing = claiming
	}
	in.recordResult(ctx, doing, l.Err)
	if l.Err == nil {
		in.facts.store.Answered()
	}
	in.putOff(ctx, in.parked.Take(l))
	if l.Err == nil && l.Counted {
		in.mu.Lock()
		in.kept, in.health.Quarantined, in.stuck = l.Stored, l.Quarantined, stuckOf(l.Failed)
		in.mu.Unlock()
	}
	return nil
}

// settleClaimed removes a claimed message after an attempt, and schedules the next look.
func (in *Inbox[TTx]) settleClaimed(r exec.Result) {
	if !in.exec.Handles(r.Entry.Kind()) {
		in.checkpoints.AskTypes()
	}
	wait := time.Duration(0) // until the next message of its key is due
	switch r.What {
	case decide.Later, decide.Failed, decide.Delayed:
		wait = r.After
	case decide.Again, decide.Outage, decide.NotParked:
		wait = max(r.After, in.o.Retry.InitialInterval)
	case decide.Stale, decide.Full:
		wait = retryLater
	}
	in.parked.Settle(r.Entry, wait)
}

// putOff gives back claimed messages that have failed and may not run soon. It makes them due later:
// otherwise the next claim would select them first again, and never the other messages. Messages that this
// process still runs keep their claim for one more lease.
func (in *Inbox[TTx]) putOff(ctx context.Context, es []*partition.Entry) {
	var back []store.Effect
	for _, e := range es {
		k := in.exec.NewPark(e)
		k.Claims = e.Parked.Claims - 1 // this claim does not count
		k.WasClaim = &store.Claim{Claims: e.Parked.Claims, Session: e.Parked.Session}
		if k.Due = in.retry.WaitOutage(math.MaxInt32); e.Lease > 0 { // this process still runs the message
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
		_, _ = in.db.Apply(ctx, back...) // after an error another claim gets them when their lease ends
	}
	if in.checkpoints.Patient() {
		go put()
	} else {
		put()
	}
}

// handBack releases the claimed messages that no worker has started. After an error, other instances claim
// them when their lease ends.
func (in *Inbox[TTx]) handBack(ctx context.Context) {
	var back []store.Effect
	for _, e := range in.parked.NotBegun() {
		k := in.exec.NewPark(e)
		k.Claims = e.Parked.Claims - 1 // this claim does not count
		back = append(back, store.Effect{Park: k})
	}
	if len(back) == 0 {
		return
	}
	if _, err := in.db.Apply(ctx, back...); err != nil {
		in.o.Logger.WarnContext(ctx, "inbox: cannot give claimed messages back", "consumer", in.group,
			"messages", len(back), "error", err)
	}
}
