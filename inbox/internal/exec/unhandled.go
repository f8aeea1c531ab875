// This file ends messages that this build has no handler for.

package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// ErrUnhandled is the failure of a dead letter if no build handles its type any more. Later messages of its
// key do not wait for it.
var ErrUnhandled = errors.New(
	"inbox: no build handles this type any more; redrive it once one does, or drop it")

// ErrNoType is the failure of a message without a type: no build has a handler for the type "".
var ErrNoType = errors.New(
	"inbox: the message has no type, and no build handles the type \"\": let its publisher set a type, " +
		"configure its place in the broker's URL (envelope, route, shapes), or handle the type \"\"; " +
		"then redrive it")

// otherBuildWait is how long a message is parked if a build without a handler for it has claimed it.
const otherBuildWait = time.Second

// unhandled ends a message that this build has no handler for. It parks a message from the broker for a build
// with a handler. If the message is parked already, it looks for such a build. If there is none, the message
// becomes a dead letter.
func (x *Executor[TTx]) unhandled(ctx context.Context, e *partition.Entry, end rollbackFunc) Result {
	if e.Untyped {
		return x.fail(ctx, e, end, fmt.Errorf("%w (topic %s)", ErrNoType, e.Topic))
	}
	err := fmt.Errorf("this build has no handler for %s of %s", e.Type, e.Topic)
	k := x.NewPark(e)
	k.Last = store.Failure{At: x.o.Now(), Why: err.Error(), Host: x.o.Host}
	if e.Parked == nil {
		return x.park(ctx, e, end, store.Effect{Park: k}, Result{Entry: e, What: decide.Queued})
	}
	_, _ = end(ctx)
	all, failed := x.db.SyncConsumer(ctx, store.SyncRequest{Consumer: x.o.Group,
		Heartbeat: &store.Heartbeat{}})
	switch {
	case failed != nil:
		return x.storeFailed(ctx, e,
			fmt.Errorf("look for a handler of %s of %s: %w", e.Type, e.Topic, failed))
	case slices.Contains(all.Kinds, store.Kind{Topic: e.Topic, Type: e.Type}):
		return x.parkFor(ctx, e, x.db.Apply, otherBuildWait, err)
	case e.Type == "":
		return x.fail(ctx, e, x.db.Apply, fmt.Errorf("%w (topic %s)", ErrNoType, e.Topic))
	case !k.First.At.IsZero() || e.Call != nil:
		return x.fail(ctx, e, x.db.Apply, skald.UnknownVersion(err))
	}
	err = fmt.Errorf("%w: %s of %s", ErrUnhandled, e.Type, e.Topic)
	k.Last.Why, k.First = err.Error(), k.Last
	k.Dead = x.newDeath(string(failure.Unhandled), failure.Unhandled, e, err, k.Last.At)
	k.Dead.BlocksKey = false
	return x.park(ctx, e, x.db.Apply, store.Effect{Park: k, Rows: x.o.Announce.Rows(ctx, &k.Parked)},
		Result{Entry: e, What: decide.Dead, Err: err})
}
