package inbox

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/backoff"
)

// settle writes one result into lane and chain. An error stops the consumer.
func (in *Inbox[TTx]) settle(ctx context.Context, r result) error {
	e, c := r.entry, r.entry.chain
	now := in.o.Now()
	in.gate.note(r.what == outage, now)
	in.tel.Ended(&e.Message, r.what.String(), r.took, r.what == handled || r.what == rejected, now)
	switch r.what {
	case broken:
		return fmt.Errorf("consumer %s: %w", in.group, r.err)
	case handled, duplicate, rejected, conflict, tooOld:
		e.done, e.err = true, nil
		delete(in.failing, e)
		in.count(func(h *Health) { h.add(r.what) })
		if c.busy = c.pass(); c.busy {
			in.ready = append(in.ready, c)
		}
		return nil
	}
	in.postpone(ctx, r)
	return nil
}

// postpone keeps a message at the head of its chain until it is due again.
func (in *Inbox[TTx]) postpone(ctx context.Context, r result) {
	e, now := r.entry, in.o.Now()
	wait := r.after
	if r.what != later {
		e.again++
		wait = backoff.After(e.again, in.o.RetryFirst, in.o.RetryMost)
	}
	e.err = r.err
	if r.what == failed {
		if e.attempts++; e.attempts == 1 {
			e.since, in.failing[e] = now, true
		}
		in.count(func(h *Health) { h.Failures++ })
		in.complain(ctx, e, wait)
	}
	e.chain.due = now.Add(wait)
	if len(in.waiting) == 0 || e.chain.due.Before(in.alarm) {
		in.alarm = e.chain.due
	}
	in.waiting = append(in.waiting, e.chain)
}

// complain logs the attempts 1, 2, 4, 8 …: an endless failure is not to fill the log.
func (in *Inbox[TTx]) complain(ctx context.Context, e *entry, wait time.Duration) {
	if bits.OnesCount(uint(e.attempts)) != 1 {
		return
	}
	in.o.Logger.WarnContext(ctx, "inbox: message failed; its key waits", "consumer", in.group,
		"topic", e.Topic, "lane", e.Lane, "position", e.Position, "id", e.ID, "type", e.Type,
		"attempt", e.attempts, "next", wait, "error", e.err)
}

// wake moves the chains that are due to the ready ones and says when the next one will be.
func (in *Inbox[TTx]) wake() (wait time.Duration, some bool) {
	now := in.o.Now()
	if len(in.waiting) == 0 || now.Before(in.alarm) {
		return in.alarm.Sub(now), len(in.waiting) > 0
	}
	kept := in.waiting[:0]
	for _, c := range in.waiting {
		switch {
		case c.lane.lost:
		case !now.Before(c.due):
			in.ready = append(in.ready, c)
		default:
			if len(kept) == 0 || c.due.Before(in.alarm) {
				in.alarm = c.due
			}
			kept = append(kept, c)
		}
	}
	clear(in.waiting[len(kept):])
	in.waiting = kept
	return in.alarm.Sub(now), len(kept) > 0
}

// next is the head of a chain that may be taken now.
func (in *Inbox[TTx]) next() *entry {
	for len(in.ready) > 0 {
		c := in.ready[0]
		in.ready[0] = nil
		in.ready = in.ready[1:]
		if !c.lane.lost && c.pass() {
			return c.queue[0]
		}
		c.busy = false
	}
	return nil
}

// ack acknowledges the finished prefix of every lane.
func (in *Inbox[TTx]) ack(ctx context.Context) (busy bool, err error) {
	_, _ = in.inside.prefix()
	var done []broker.Delivery
	for _, l := range in.lanes {
		if last, ok := l.prefix(); ok {
			done = append(done, last)
		}
	}
	if len(done) == 0 {
		return false, nil
	}
	slices.SortFunc(done, func(a, b broker.Delivery) int { return cmp.Compare(a.Lane, b.Lane) }) // so that what an explorer saw can be replayed
	if err := in.sub.Ack(ctx, done); err != nil {
		return true, fmt.Errorf("acknowledge for %s: %w", in.group, err)
	}
	return true, nil
}

// A gate lets one message at a time through while everything that is tried ends in an outage, so that a
// database that is away is not asked by every key that waits.
type gate struct {
	outages int
	until   time.Time
}

const gateOpen = 8 // outages in a row that are still taken for chance: deadlocks, rivals

func (g *gate) note(outage bool, now time.Time) {
	if !outage {
		*g = gate{}
		return
	}
	if g.outages++; g.outages > gateOpen {
		g.until = now.Add(backoff.After(g.outages-gateOpen, 100*time.Millisecond, 5*time.Second))
	}
}

// closed says for how long nothing should be tried, and whether what is tried then should be tried alone.
func (g *gate) closed(now time.Time) (wait time.Duration, alone bool) {
	return max(0, g.until.Sub(now)), g.outages > gateOpen
}
