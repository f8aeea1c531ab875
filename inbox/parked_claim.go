package inbox

import (
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// What waits directly behind a claimed message is read along with it, and rides: it is taken in the
// transaction of that one, or is left in the store. So its claim is that of the first, which stands until
// that transaction is over, and a key costs a claim for each transaction instead of one for each message.

// portion is how much to claim where so many messages are wanted. Each key brings what the last ones brought.
func (q *queue) portion(limit int) store.ClaimSize {
	along := min(q.along, q.size-1)
	if along <= 0 || limit < 2 || q.o.Alone() {
		return store.ClaimSize{Keys: limit}
	}
	keys := max(1, limit/(1+q.riding))
	return store.ClaimSize{Keys: keys, Prefetch: along, PrefetchAll: max(limit-keys, limit/4)}
}

// learn notes how many came along with each key.
func (q *queue) learn(keys, along int, asked store.ClaimSize) {
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
func (q *queue) claimAll(l *looked) (back []*partition.Entry) {
	first, along := map[string]*partition.Chain{}, 0
	inHand := q.inHand()
	room := q.o.Retries() - q.count(func(e *partition.Entry) bool { return e.Troubled() && !q.hangs(e) })
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
			e := &partition.Entry{Parked: p, Call: p.Call, Given: p.Identity, Lease: q.o.Lease()}
			back, c = append(back, e), nil
		case partition.Lasting(p, q.o.Uncharged) && !suspected(p) && room <= 0:
			back, c = append(back, &partition.Entry{Parked: p, Call: p.Call, Given: p.Identity}), nil
		default:
			c = q.claim(p, l.began)
		}
		if c != nil && partition.Lasting(p, q.o.Uncharged) {
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
func (q *queue) inHand() func(*store.Parked) bool {
	running, claims := q.o.Running(), map[store.Identity]int{}
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
func (q *queue) entry(p *store.Parked) *partition.Entry {
	d := broker.Delivery{Message: p.Message, Partition: p.Partition, Position: p.Position}
	e := &partition.Entry{Delivery: d, Parked: p, Given: p.Identity}
	e.Lasting = partition.Lasting(p, q.o.Uncharged)
	e.Lonely, e.Foreign = q.o.Calls(e.Kind()), !q.o.Handles(e.Kind())
	q.claimed[e] = true
	q.schedule.Number(e)
	return e
}

// claim makes a chain of its own of a claimed message, and has it taken.
func (q *queue) claim(p *store.Parked, began time.Time) *partition.Chain {
	e := q.entry(p)
	e.Since, e.Lease, e.Call = began, q.o.Lease(), p.Call
	e.Again, e.Refused = q.o.Again(p.Identity), q.o.Refused(p.Identity)
	e.Chain = &partition.Chain{Partition: q.partition, Queue: []*partition.Entry{e}, Busy: true}
	if e.Alone = suspected(p); e.Alone {
		q.suspects = append(q.suspects, e.Chain)
		return e.Chain
	}
	q.schedule.Add(e.Chain)
	return e.Chain
}

// ride puts p behind the first of its key.
func (q *queue) ride(c *partition.Chain, p *store.Parked) {
	h, e := c.Queue[0], q.entry(p)
	e.Chain, e.Prefetches, e.Since, e.Lease = c, true, h.Since, h.Lease
	c.Queue = append(c.Queue, e)
}

// LeaveRiders lets go of what rides behind a message that is finished: its claim is over. False: c has
// nothing that rides.
func (q *queue) LeaveRiders(c *partition.Chain) bool {
	if !c.Queue[0].Prefetches {
		return false
	}
	for _, e := range c.Queue {
		delete(q.claimed, e)
	}
	c.Queue = nil
	q.along /= 4 // a job that went well doubles it
	q.Soon(q.o.Now())
	return true
}
