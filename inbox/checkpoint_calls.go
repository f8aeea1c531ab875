package inbox

import (
	"context"
	"time"

	"github.com/skald-go/skald/inbox/internal/checkpoint"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/backoff"
)

// storeCalls makes the due calls of the store, at most five. Step has no other goroutine for them.
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

// done applies the result of a call. An error stops the consumer.
func (in *Inbox[TTx]) done(ctx context.Context, e checkpoint.Call) error {
	doing := noting
	if e.Types() {
		doing = readingTypes
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

// releasePartitions stores in the database that this process left all its partitions cleanly.
func (in *Inbox[TTx]) releasePartitions(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := in.checkpoints.Leave(ctx); err != nil {
		in.o.Logger.DebugContext(ctx, "inbox: cannot store that partitions were left cleanly", "consumer",
			in.group, "error", err)
	}
}

// enroll stores which types this build handles, before it joins the group. Other builds may not have read
// that yet. Run waits until they have: from then on they do not skip these types.
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

// skip finishes a message of a type that no build handles. If another build handles it, the attempt parks it
// for that build. A message without a type may be any message, so it becomes a dead letter.
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
