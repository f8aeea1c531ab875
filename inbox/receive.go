package inbox

import (
	"context"
	"fmt"
	"slices"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store"
)

const receiveMax = 1000

// receive takes what has arrived into partitions and chains, and drops at once what is not for us or was
// finished before.
func (in *Inbox[TTx]) receive(ctx context.Context) (busy bool, err error) {
	in.did(ctx, readingKey, in.rekey(ctx))
	in.admitted(ctx)
	if in.checkpointer.moved || in.sub == nil {
		if err := in.joinAgain(ctx); err != nil {
			return false, err
		}
	}
	if busy, err = in.fetch(ctx); err != nil {
		return false, err
	}
	if !in.checkpointer.patient {
		if err := in.storeCalls(ctx); err != nil {
			return busy, err
		}
	}
	ds := in.admissible()
	fresh := make([]*entry, len(ds))
	for i, d := range ds {
		fresh[i] = in.accept(d)
		if l := fresh[i].chain.partition; l.origin == "" && fresh[i].id.Source == positionSource {
			return busy, fmt.Errorf("partition %s: %w", l.name, ErrPositions)
		}
	}
	in.dropCached(ctx, fresh)
	in.suspect(fresh, in.dropSeen(ctx, fresh))
	in.schedule(fresh)
	return busy || len(ds) > 0, nil
}

// fetch takes what the broker has, unless something of it waits still.
func (in *Inbox[TTx]) fetch(ctx context.Context) (busy bool, err error) {
	if len(in.checkpointer.waiting) > 0 {
		return false, nil
	}
	batch, err := in.sub.Receive(ctx, receiveMax)
	if err != nil {
		return false, fmt.Errorf("receive for %s: %w", in.group, err)
	}
	in.move(batch)
	in.misses(ctx, batch.Missed)
	in.settled(batch)
	for i := range batch.Deliveries {
		if l := in.partitions[batch.Deliveries[i].Partition]; l != nil && l.at < 0 {
			l.at = batch.Deliveries[i].Position
		}
	}
	if len(batch.Deliveries) > 0 {
		in.checkpointer.fetches++
	}
	in.checkpointer.waiting = batch.Deliveries
	return len(batch.Deliveries)+len(batch.Gained)+len(batch.Lost) > 0, nil
}

// suspect looks for what a process may have died of: of each key the first that is not finished was in its
// hand, or none. Unless all that was finished is known, any may be the first.
func (in *Inbox[TTx]) suspect(es []*entry, known bool) {
	for _, e := range es {
		l := e.chain.partition
		switch {
		case e.done || !e.readable():
		case l.shared: // nobody knows who had it, nor what became of that
			e.suspect = e.Attempt > 0
			continue
		case l.tried == nil:
		case l.redelivered:
			e.suspect = e.Attempt > 0 && !l.tried[e.chain.key]
		case e.Position < l.suspects:
			e.suspect = !l.tried[e.chain.key]
		default:
			l.tried = nil
		}
		if e.suspect && known && e.chain.key != "" {
			l.tried[e.chain.key] = true
		}
	}
}

func (in *Inbox[TTx]) move(b broker.Batch) {
	for _, gone := range b.Lost {
		if l := in.partitions[gone.Name]; l != nil {
			l.lost = true
			in.parts(l)
			delete(in.partitions, gone.Name)
			in.forget(gone.Name)
		}
	}
	for _, g := range b.Gained {
		l := newPartition(g.Name)
		l.origin, l.since = g.Origin, in.o.Now()
		if g.Shared {
			l.shared, l.open, l.session = true, true, in.checkpointer.session
		}
		if g.Started && g.Origin != "" {
			l.at = g.Start
		}
		in.partitions[g.Name], in.strange = l, 0
	}
}

// accept gives a delivery its place in partition and chain. What is skipped is done with that.
func (in *Inbox[TTx]) accept(d broker.Delivery) *entry {
	l := in.partitions[d.Partition]
	if l == nil {
		l = newPartition(d.Partition)
		l.since = in.o.Now()
		in.partitions[d.Partition] = l
	}
	in.limit(&d)
	e := l.add(d)
	in.arrived++
	e.nth = in.arrived
	if e.Fault == nil {
		e.id, e.unknown = in.identify(d)
	}
	_, e.lonely = in.calls[store.Kind{Topic: d.Topic, Type: d.Type}]
	in.count(func(h *Health) { h.Received++ })
	if e.readable() && in.handlers[store.Kind{Topic: d.Topic, Type: d.Type}] == nil {
		in.skip(e)
	}
	return e
}

// trusting is behind how many messages, none of which was finished before, it is no longer asked whether they
// were: of a hundred that share a transaction that is a sixth of what they cost the database. It is again
// behind a repeat, and with each partition that is gained.
const trusting = 5 * receiveMax

// wary tells whether it is to be asked for es.
func (in *Inbox[TTx]) wary(es []*entry) bool {
	return in.strange < trusting || slices.ContainsFunc(es, func(e *entry) bool { return e.chain.partition.tried != nil })
}

// dropSeen looks all of es up in one read. If that cannot be had, which it tells, each intake finds out for
// itself.
func (in *Inbox[TTx]) dropSeen(ctx context.Context, es []*entry) (known bool) {
	if !in.wary(es) {
		return false
	}
	ids, of := make([]store.Identity, 0, len(es)), make([]*entry, 0, len(es))
	for _, e := range es {
		if e.readable() && !e.done {
			ids, of = append(ids, e.id), append(of, e)
		}
	}
	if len(ids) == 0 {
		return true
	}
	seen, err := in.db.Seen(ctx, in.group, ids)
	if in.did(ctx, lookingUp, err); err != nil {
		return false
	}
	in.strange += len(ids)
	for i, v := range seen {
		if v.Outcome != store.Fresh {
			in.strange = 0
		}
		if v.Outcome != store.Fresh && in.harmless(of[i], v) {
			of[i].done = true
			in.remember(of[i])
			in.count(func(h *Health) { h.Duplicates++ })
			in.tel.Count(of[i].Topic, duplicate.String())
		}
	}
	return true
}

// schedule makes the chains of es ready that nobody looks after yet.
func (in *Inbox[TTx]) schedule(es []*entry) {
	for _, e := range es {
		if c := e.chain; !c.busy && c.pass() {
			c.busy = true
			in.ready.add(c)
		}
	}
}

// maxHeldBytes bounds what one partition may hold unacknowledged, whatever the size of its messages.
const maxHeldBytes = 16 << 20
