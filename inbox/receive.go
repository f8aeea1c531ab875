package inbox

import (
	"context"
	"fmt"
	"slices"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store"
)

const receiveMax = 1000

// receive takes what has arrived into lanes and chains, and drops at once what is not for us or was finished before.
func (in *Inbox[TTx]) receive(ctx context.Context) (busy bool, err error) {
	if err := in.rekey(ctx); err != nil {
		in.o.Logger.DebugContext(ctx, "inbox: read the key of fingerprints", "consumer", in.group, "error", err)
	}
	in.admitted(ctx)
	if in.book.moved || in.sub == nil {
		if err := in.joinAgain(ctx); err != nil {
			return false, err
		}
	}
	if busy, err = in.fetch(ctx); err != nil {
		return false, err
	}
	if !in.book.patient {
		if err := in.errands(ctx); err != nil {
			return busy, err
		}
	}
	ds := in.admissible()
	fresh := make([]*entry, len(ds))
	for i, d := range ds {
		fresh[i] = in.accept(d)
	}
	in.suspect(fresh, in.dropSeen(ctx, fresh))
	in.schedule(fresh)
	return busy || len(ds) > 0, nil
}

// fetch takes what the broker has, unless something of it waits still.
func (in *Inbox[TTx]) fetch(ctx context.Context) (busy bool, err error) {
	if len(in.book.waiting) > 0 {
		return false, nil
	}
	batch, err := in.sub.Receive(ctx, receiveMax)
	if err != nil {
		return false, fmt.Errorf("receive for %s: %w", in.group, err)
	}
	in.move(batch)
	for i := range batch.Deliveries {
		if l := in.lanes[batch.Deliveries[i].Lane]; l != nil && l.at < 0 {
			l.at = batch.Deliveries[i].Position
		}
	}
	if len(batch.Deliveries) > 0 {
		in.book.fetches++
	}
	in.book.waiting = batch.Deliveries
	return len(batch.Deliveries)+len(batch.Gained)+len(batch.Lost) > 0, nil
}

// suspect looks for what a process may have died of: of each key the first that is not finished was in its hand, or none.
// Unless all that was finished is known, any may be the first.
func (in *Inbox[TTx]) suspect(es []*entry, known bool) {
	for _, e := range es {
		l := e.chain.lane
		switch {
		case l.tried == nil || e.done || !e.readable():
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
		if l := in.lanes[gone.Name]; l != nil {
			l.lost = true
			in.parts(l)
			delete(in.lanes, gone.Name)
		}
	}
	for _, g := range b.Gained {
		l := newLane(g.Name)
		l.origin, l.since = g.Origin, in.o.Now()
		if g.Started && g.Origin != "" {
			l.at = g.Start
		}
		in.lanes[g.Name], in.strange = l, 0
	}
}

// accept gives a delivery its place in lane and chain. What is skipped is done with that.
func (in *Inbox[TTx]) accept(d broker.Delivery) *entry {
	l := in.lanes[d.Lane]
	if l == nil {
		l = newLane(d.Lane)
		l.since = in.o.Now()
		in.lanes[d.Lane] = l
	}
	e := l.add(d)
	in.arrived++
	e.nth = in.arrived
	if e.Fault == nil {
		e.id, e.unknown = in.identify(d)
	}
	_, e.lonely = in.calls[kind{d.Topic, d.Type}]
	in.count(func(h *Health) { h.Received++ })
	if e.readable() && in.handlers[kind{d.Topic, d.Type}] == nil {
		in.skip(e)
	}
	return e
}

// trusting is behind how many messages, none of which was finished before, it is no longer asked whether they were: of a hundred that
// share a transaction that is a sixth of what they cost the database. It is again behind a repeat, and with each lane that is gained.
const trusting = 5 * receiveMax

// wary tells whether it is to be asked for es.
func (in *Inbox[TTx]) wary(es []*entry) bool {
	return in.strange < trusting || slices.ContainsFunc(es, func(e *entry) bool { return e.chain.lane.tried != nil })
}

// dropSeen looks all of es up in one read. If that cannot be had, which it tells, each intake finds out for itself.
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
	if err != nil {
		in.o.Logger.DebugContext(ctx, "inbox: look up marks", "consumer", in.group, "error", err)
		return false
	}
	in.strange += len(ids)
	for i, v := range seen {
		if v.Outcome != store.Fresh {
			in.strange = 0
		}
		if v.Outcome != store.Fresh && in.harmless(of[i], v) {
			of[i].done = true
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

// maxHeldBytes bounds what one lane may hold unacknowledged, whatever the size of its messages.
const maxHeldBytes = 16 << 20

// regulate pauses the lanes that have too much unacknowledged and resumes those that have worked half of it off.
func (in *Inbox[TTx]) regulate() {
	for name, l := range in.lanes {
		switch n := len(l.entries); {
		case !l.paused && (n >= in.o.MaxHeld || l.bytes >= maxHeldBytes || l.full > 0):
			l.paused = true
			in.sub.Pause(name)
			in.o.Logger.Warn("inbox: lane paused", "consumer", in.group, "lane", name, "unacknowledged", n, "bytes", l.bytes)
		case l.paused && n <= in.o.MaxHeld/2 && l.bytes <= maxHeldBytes/2 && l.full == 0:
			l.paused = false
			in.sub.Resume(name)
		}
	}
}
