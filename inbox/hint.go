package inbox

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
func (in *Inbox[TTx]) hinted(ctx context.Context, e *partition.Entry) result {
	if in.o.Front.Ahead == nil || e.Parked != nil || e.Suspect || e.Alone || !e.Readable() || in.key.Load() == nil || in.isBegun(ctx, e) {
		return in.attempt(ctx, e)
	}
	key := in.seal(e, "").Key
	if !in.o.Front.Ahead.Claim(ctx, key) && time.Duration(e.Hints)*hintEvery < in.o.Timeouts.Wait {
		e.Hints++
		return result{entry: e, what: decide.Again, after: hintEvery, err: store.ErrBusy}
	}
	defer in.o.Front.Ahead.Release(key)
	return in.attempt(ctx, e)
}

// isBegun tells whether the transaction of e is open already.
func (in *Inbox[TTx]) isBegun(ctx context.Context, e *partition.Entry) bool {
	w := in.workerOf(ctx, e)
	return w != nil && w.unit != nil
}
