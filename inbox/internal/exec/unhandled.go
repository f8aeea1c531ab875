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

// ErrUnhandled is why a parked message is a dead letter whose type no build handles any more. Messages of its
// key go on after it.
var ErrUnhandled = errors.New(
	"inbox: no build handles this type any more; redrive it once one does, or drop it")

// ErrNoType is why a message without a type is a dead letter: no build has a handler for the type "".
var ErrNoType = errors.New(
	"inbox: the message has no type, and nobody handles messages without one: have its publisher set one, " +
		"say in the broker's URL where it is (envelope, route, shapes), or handle the type \"\"; then redrive it")

// leftToOthers is how long a message waits that was claimed by a build without a handler for it.
const leftToOthers = time.Second

// unhandled is for a message that this build has no handler for. From the broker: it is parked for a build
// that has one. One that was parked, and that nobody left to others, was claimed by mistake, or there is no
// such build any more.
func (x *Executor[TTx]) unhandled(ctx context.Context, e *partition.Entry, end undo) Result {
	if e.Untyped {
		return x.failure(ctx, e, end, fmt.Errorf("%w (topic %s)", ErrNoType, e.Topic))
	}
	err := fmt.Errorf("this build has no handler for %s of %s", e.Type, e.Topic)
	k := x.Parcel(e)
	k.Last = store.Failure{At: x.o.Now(), Why: err.Error(), Host: x.o.Host}
	if e.Parked == nil {
		return x.store(ctx, e, end, store.Effect{Park: k}, Result{Entry: e, What: decide.Queued})
	}
	_, _ = end(ctx) // nothing was written
	all, failed := x.db.Attend(ctx, store.Attend{Consumer: x.o.Group, Heartbeat: &store.Heartbeat{}})
	switch {
	case failed != nil:
		return x.storeFailed(ctx, e, fmt.Errorf("who handles %s of %s: %w", e.Type, e.Topic, failed))
	case slices.Contains(all.Kinds, store.Kind{Topic: e.Topic, Type: e.Type}):
		return x.later(ctx, e, x.db.Apply, leftToOthers, err)
	case e.Type == "":
		return x.failure(ctx, e, x.db.Apply, fmt.Errorf("%w (topic %s)", ErrNoType, e.Topic))
	case !k.First.At.IsZero() || e.Call != nil:
		return x.failure(ctx, e, x.db.Apply, skald.UnknownVersion(err))
	}
	err = fmt.Errorf("%w: %s of %s", ErrUnhandled, e.Type, e.Topic)
	k.Last.Why, k.First = err.Error(), k.Last
	k.Dead = x.death(string(failure.Unhandled), failure.Unhandled, e, err, k.Last.At)
	k.Dead.BlocksKey = false
	return x.store(ctx, e, x.db.Apply, store.Effect{Park: k, Rows: x.o.Announce.Rows(ctx, &k.Parked)},
		Result{Entry: e, What: decide.Dead, Err: err})
}
