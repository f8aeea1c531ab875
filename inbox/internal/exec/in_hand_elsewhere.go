package exec

import (
	"context"
	"time"

	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// hintEvery is how long a message waits that another process seems to have in hand, before it is looked
// again.
const hintEvery = 50 * time.Millisecond

// hinted takes e as attempt does, unless a hint says that another process has it in hand: then it waits at
// its place, for no longer than it would wait for a rival at the database, which decides.
func (x *Executor[TTx]) hinted(ctx context.Context, e *partition.Entry) Result {
	if x.o.Ahead == nil || e.Parked != nil || e.Suspect || e.Alone || !e.Readable() || !x.HasKey() ||
		x.isBegun(ctx, e) {
		return x.attempt(ctx, e)
	}
	key := x.Seal(e, "").Key
	if !x.o.Ahead.Claim(ctx, key) && time.Duration(e.Hints)*hintEvery < x.o.Wait {
		e.Hints++
		return Result{Entry: e, What: decide.Again, After: hintEvery, Err: store.ErrBusy}
	}
	defer x.o.Ahead.Release(key)
	return x.attempt(ctx, e)
}

// isBegun tells whether the transaction of e is open already.
func (x *Executor[TTx]) isBegun(ctx context.Context, e *partition.Entry) bool {
	w := x.workerOf(ctx, e)
	return w != nil && w.unit != nil
}
