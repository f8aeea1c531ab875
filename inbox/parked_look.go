package inbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/skald-go/skald/inbox/internal/checkpoint"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/store"
)

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
func (q *queue) Due(now time.Time) time.Duration { return max(0, q.at.Sub(now)) }

// Wants says what the next look is to do, where so many may be claimed; false: there is no need for one yet.
// Rest is how long not to count again what we have changed.
func (q *queue) Wants(rest time.Duration, appetite func() int,
	all map[string]*partition.Partition) (most store.ClaimSize, count, some bool) {
	now := q.o.Now()
	if q.Due(now) == 0 {
		most = q.portion(max(0, appetite()))
	}
	count = q.changed && now.Sub(q.counted) >= rest || q.some && q.recount(now.Sub(q.counted), all)
	return most, count, most.Keys > 0 || count
}

// Rest is how long not to count again, while there is much to do.
func (q *queue) Rest() time.Duration { return max(tellKept, q.share(tellShare)) }

// Counting says that what is kept is counted from now on: the count may not see what changes after that.
func (q *queue) Counting() { q.changed = false }

// Change says that something was parked or freed.
func (q *queue) Change() { q.changed = true }

// Changed tells whether something was, since the last count began.
func (q *queue) Changed() bool { return q.changed }

// recount reports whether to count the parked messages again, so long after the last count: other instances
// may have parked or freed some.
func (q *queue) recount(since time.Duration, all map[string]*partition.Partition) bool {
	switch {
	case since >= max(tellIdle, q.share(tellOther)):
		return true
	case since >= max(lookIdle, q.share(tellShare)):
		return crowded(all)
	}
	return false
}

// share is how long to wait between counts so that they take one part in n of the time.
func (q *queue) share(n time.Duration) time.Duration { return min(n*q.took, tellMost) }

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
func (q *queue) Look(ctx context.Context, a ask) looked {
	l, start := looked{Asked: a.Most, Counted: a.Count, Along: a.Along, Attends: a.Attends,
		began: q.o.Now()}, time.Now()
	if a.Most.Keys > 0 {
		l.Claimed, l.Err = q.o.DB.Claim(ctx, store.Want{Consumer: q.o.Group, Session: a.Session,
			ClaimSize: a.Most, Lease: q.o.Lease(), Not: a.Others, Attend: a.Attends})
		l.Along.Answer(l.Claimed.Attended, l.Err)
	}
	if count := a.Count; l.Err == nil && count {
		no := false
		l.Failed, l.Err = store.ListKept(ctx, q.o.DB,
			store.Sought{Consumer: q.o.Group, Failed: true, Dead: &no,
				Bare: true, Limit: mostFailed})
		if l.Err == nil {
			var s store.Status
			s, l.Err = q.o.DB.Status(ctx, store.StatusQuery{Keeping: q.o.Group})
			l.Kept, l.Apart = s.Keeping, s.Quarantined
		}
	}
	if l.Err != nil {
		l.Err = fmt.Errorf("look for parked messages of %s: %w", q.o.Group, l.Err)
	}
	l.took = time.Since(start)
	return l
}

// Take takes up what a look found. It returns what is to be given back: messages that have failed, beyond
// those that may be here.
func (q *queue) Take(l looked) (back []*partition.Entry) {
	now := q.o.Now()
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
func (q *queue) next(l *looked, now time.Time) {
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
func (q *queue) Admitted() bool { return q.admitted }

// Soon has the next look at t, at the latest.
func (q *queue) Soon(t time.Time) {
	if t.Before(q.at) {
		q.at = t
	}
}
