package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/skald-go/skald/store"
)

// ErrKills is the failure of a message that ended its process again and again.
var ErrKills = errors.New("inbox: its process ended each time that nothing but this message was run")

// Crash is the class of such a failure.
const Crash Class = "crash"

// careful does what must stand in the database before a message is run that a process may have died of. It is parked, so that
// whoever claims it knows; and charged with a kill that only its own end takes back.
func (in *Inbox[TTx]) careful(ctx context.Context, e *entry) (r result, over bool) {
	switch k := in.parcel(e); {
	case e.parked == nil:
		k.Claims = trusted - 1
		return in.putAside(ctx, e, k)
	case e.parked.Kills >= in.o.Kills:
		return in.killer(ctx, e, k), true
	default:
		k.Kills, k.Claims, k.Life = k.Kills+1, e.parked.Claims, e.parked.Life // no answer yet
		k.Due = in.lease(turnOfClaimed)
		r = in.store(ctx, e, in.db.Apply, store.Effect{Keep: k}, result{entry: e, what: handled})
		return r, r.what != handled
	}
}

// ahead is aheadOf, careful first of a call that a process may have died of: what asks the outside is run before its message is taken. One
// that is not timely is not made.
func (in *Inbox[TTx]) ahead(ctx context.Context, e *entry) result {
	c, calls := in.calls[kind{e.Topic, e.Type}]
	if calls && e.alone && e.call != nil && e.call.Outcome == "" && in.timely(e, c.at) {
		if r, over := in.careful(ctx, e); over {
			return r
		}
	}
	return in.aheadOf(ctx, e)
}

// putAside parks a suspect, if it is one that may be taken at all; else it goes the way of others.
func (in *Inbox[TTx]) putAside(ctx context.Context, e *entry, k *store.Keep) (r result, over bool) {
	unit, err := in.db.Begin(ctx, store.Intake{Marks: []store.Mark{in.mark(e)}, Server: e.server,
		Wait: in.o.Wait, Handle: in.o.Handle})
	if err != nil {
		return in.failure(ctx, e, in.db.Apply, fmt.Errorf("take in %s: %w", e.ID, err)), true
	}
	if unit.Found().Marks[0].Outcome != store.Fresh {
		_, _ = unit.Rollback(ctx)
		return r, false
	}
	return in.store(ctx, e, unit.Rollback, store.Effect{Keep: k}, result{entry: e, what: queued}), true
}

// killer makes a dead letter of a message that ended its process too often.
func (in *Inbox[TTx]) killer(ctx context.Context, e *entry, k *store.Keep) result {
	now, err := in.o.Now(), fmt.Errorf("%w: %d times", ErrKills, e.parked.Kills)
	k.Last = store.Failure{At: now, Why: err.Error(), Host: in.o.Host}
	if k.First.At.IsZero() {
		k.First = k.Last
	}
	k.Dead = in.death(string(Crash), Crash, e, err, now)
	effect := store.Effect{Keep: k, Rows: in.announcement(ctx, k)}
	return in.store(ctx, e, in.db.Apply, effect, result{entry: e, what: dead, err: err, attempts: k.Attempts})
}
