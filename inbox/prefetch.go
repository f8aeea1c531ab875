package inbox

import (
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// What waits directly behind a claimed message is read along with it, and rides: it is taken in the
// transaction of that one, or is left in the store. So its claim is that of the first, which stands until
// that transaction is over, and a key costs a claim for each transaction instead of one for each message.

// portion is how much to claim where so many messages are wanted. Each key brings what the last ones brought.
func (in *Inbox[TTx]) portion(limit int) store.ClaimSize {
	s := &in.parkedQueue
	along := min(s.along, s.size-1)
	if along <= 0 || limit < 2 || in.exec.AsksBeside() {
		return store.ClaimSize{Keys: limit}
	}
	keys := max(1, limit/(1+s.riding))
	return store.ClaimSize{Keys: keys, Prefetch: along, PrefetchAll: max(limit-keys, limit/4)}
}

// learn notes how many came along with each key.
func (s *parkedQueue) learn(keys, along int, asked store.ClaimSize) {
	switch {
	case keys == 0 || asked.Prefetch == 0:
	case along == asked.PrefetchAll:
		s.riding = 2*s.riding + 1 // and there are more
	default:
		s.riding = (along + keys - 1) / keys
	}
}

// shelveAll makes chains of what was claimed, each key's with what rides.
func (in *Inbox[TTx]) shelveAll(l looked) {
	first, along := map[string]*partition.Chain{}, 0
	for i := range l.claimed.Parked {
		p := &l.claimed.Parked[i]
		key := string(p.Message.Key)
		if c := first[key]; c != nil && p.Waiting && p.Message.Key != nil {
			in.prefetch(c, p)
			along++
		} else if c = in.claim(p, l.began); p.Message.Key != nil {
			first[key] = c
		}
	}
	in.parkedQueue.learn(len(l.claimed.Parked)-along, along, l.asked)
}

// keys is how many messages were claimed, without those that ride.
func (l looked) keys() (n int) {
	for i := range l.claimed.Parked {
		if !l.claimed.Parked[i].Waiting {
			n++
		}
	}
	return n
}

// ride puts p behind the first of its key.
func (in *Inbox[TTx]) prefetch(c *partition.Chain, p *store.Parked) {
	h := c.Queue[0]
	e := &partition.Entry{Delivery: broker.Delivery{Message: p.Message, Partition: p.Partition, Position: p.Position}, Chain: c, Parked: p, Given: p.Identity, Prefetches: true,
		Since: h.Since, Lease: h.Lease}
	e.Lonely = in.exec.Calls(store.Kind{Topic: p.Message.Topic, Type: p.Message.Type})
	e.Foreign = !in.exec.Handles(store.Kind{Topic: p.Message.Topic, Type: p.Message.Type})
	c.Queue = append(c.Queue, e)
	in.parkedQueue.claimed[e] = true
	in.schedule.Number(e)
}

// leaveRiders lets go of what rides behind a message that is finished: its claim is over.
func (in *Inbox[TTx]) leaveRiders(c *partition.Chain) bool {
	if !c.Queue[0].Prefetches {
		return false
	}
	for _, e := range c.Queue {
		delete(in.parkedQueue.claimed, e)
	}
	c.Queue = nil
	in.parkedQueue.along /= 4 // a job that went well doubles it
	in.parkedQueue.soon(in.o.Now())
	return true
}
