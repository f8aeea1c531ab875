package inbox

import (
	"context"
	"time"

	"github.com/skald-go/skald/inbox/internal/checkpoint"
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
