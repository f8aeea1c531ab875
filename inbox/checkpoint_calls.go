// This file calls the store for the checkpoints of the consumer and the types that its builds handle.

package inbox

import (
	"context"
	"time"

	"github.com/skald-go/skald/inbox/internal/checkpoint"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/backoff"
)

// storeCalls makes the due calls of the store, at most five. Step uses it; Run makes these calls in the
// background.
func (in *Inbox[TTx]) storeCalls(ctx context.Context) error {
	for range 5 {
		e, _, some := in.checkpoints.Next(in.o.Now())
		if !some || in.checkpoints.Moved() {
			return nil
		}
		if err := in.finishStoreCall(ctx, in.checkpoints.Do(ctx, e)); err != nil {
			return err
		}
	}
	return nil
}

// finishStoreCall applies the result of a call of the store. An error stops the consumer.
func (in *Inbox[TTx]) finishStoreCall(ctx context.Context, e checkpoint.Call) error {
	doing := noting
	if e.Types() {
		doing = readingTypes
	}
	in.recordResult(ctx, doing, e.Err)
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

// releasePartitions stores in the database that this process left all its partitions cleanly.
func (in *Inbox[TTx]) releasePartitions(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := in.checkpoints.Leave(ctx); err != nil {
		in.o.Logger.DebugContext(ctx, "inbox: cannot store that partitions were left cleanly", "consumer",
			in.group, "error", err)
	}
}

// enroll stores which types this build handles, before the consumer joins the group. Builds that have not
// read the new types would skip their messages. So Run waits for as long as the other builds may take to read
// them.
func (in *Inbox[TTx]) enroll(ctx context.Context) error {
	first, wait, err := in.checkpoints.Enroll(ctx)
	if err != nil {
		return err
	}
	if first {
		in.announce.Renamed(ctx)
	}
	if wait > 0 && !backoff.Sleep(ctx, wait) {
		in.checkpoints.Unsure()
		return ctx.Err()
	}
	return nil
}

// skip finishes a message that this build has no handler for. If another build handles its type, the attempt
// parks the message for that build. A message without a type becomes a dead letter, because some handler may
// need it.
func (in *Inbox[TTx]) skip(e *partition.Entry) {
	k := e.Kind()
	others := in.checkpoints.LeftToOthers(k)
	e.Untyped = !others && k.Type == ""
	if e.Foreign = others || e.Untyped; !e.Foreign {
		e.Done = true
		in.count(func(h *Health) { h.Skipped++ })
		in.tel.Count(e.Topic, "skipped")
		in.announce.Skipped(k)
		return
	}
	if others {
		in.announce.ForOtherBuild(k)
	}
}
