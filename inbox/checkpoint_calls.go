package inbox

import (
	"context"
	"time"

	"github.com/skald-go/skald/inbox/internal/checkpoint"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/backoff"
)

// storeCalls does what is to be asked until nothing is: for Step, which has nothing beside it.
func (in *Inbox[TTx]) storeCalls(ctx context.Context) error {
	for range 5 {
		e, _, some := in.checkpoints.Next(in.o.Now())
		if !some || in.checkpoints.Moved() {
			return nil
		}
		if err := in.done(ctx, in.checkpoints.Do(ctx, e)); err != nil {
			return err
		}
	}
	return nil
}

// done takes up what a call found. An error stops the consumer.
func (in *Inbox[TTx]) done(ctx context.Context, e checkpoint.Call) error {
	doing := noting
	if e.Types() {
		doing = knowingTypes
	}
	in.did(ctx, doing, e.Err)
	if e.Err == nil {
		in.facts.store.Answered()
	}
	found, err := in.checkpoints.Done(ctx, e)
	if found.Read {
		in.seen.On(found.Server)
		skipped, resumed := in.orders.Take(ctx, found.Checkpoints)
		if resumed {
			in.breaker.Reset()
		}
		in.exec.Skip(skipped)
	}
	if found.Unclean {
		in.parked.Soon(in.o.Now())
	}
	return err
}

// goodbye says of all partitions that they were left in peace.
func (in *Inbox[TTx]) goodbye(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := in.checkpoints.Leave(ctx); err != nil {
		in.o.Logger.DebugContext(ctx, "inbox: say that partitions were left", "consumer", in.group,
			"error", err)
	}
}

// enroll notes which types this build handles, before it joins the group. Where other builds may
// not have read that yet, Run waits until each has: from then on, none skips them.
func (in *Inbox[TTx]) enroll(ctx context.Context) error {
	first, wait, err := in.checkpoints.Enroll(ctx)
	if err != nil {
		return err
	}
	if first {
		in.said.Renamed(ctx)
	}
	if wait > 0 && !backoff.Sleep(ctx, wait) {
		in.checkpoints.Unsure()
		return ctx.Err()
	}
	return nil
}

// skip is done with a message that no build handles; one that another build handles is taken, so as to be
// left to it. A message without a type may be any message, so it becomes a dead letter.
func (in *Inbox[TTx]) skip(e *partition.Entry) {
	k := e.Kind()
	others := in.checkpoints.LeftToOthers(k)
	e.Untyped = !others && k.Type == ""
	if e.Foreign = others || e.Untyped; !e.Foreign {
		e.Done = true
		in.count(func(h *Health) { h.Skipped++ })
		in.tel.Count(e.Topic, "skipped")
		in.said.Skipped(k)
		return
	}
	if others {
		in.said.Left(k)
	}
}
