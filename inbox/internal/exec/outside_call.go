package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/store"
)

// Outside is a call of one type of message.
type Outside[TTx any] struct {
	call.Bound[TTx]
	Settle func(ctx context.Context, tx TTx, m skald.Message, outcome string) (Reply, error)
}

// Intent is what the first phase of a call answers: it is no failure.
type Intent struct{ Call store.Call }

func (i *Intent) Error() string { return "a call under key " + i.Call.Key + " is to be made" }

// The longest that a message waits for its worker: one that was claimed, and one whose call was intended
// just now.
const (
	TurnOfClaimed  = 4 * time.Second
	turnOfIntended = 2 * time.Second
)

// Lease is how long a message is ours: for a call, for what follows from it, and until it is its turn.
func (x *Executor[TTx]) Lease(turn time.Duration) time.Duration {
	longest := time.Duration(0)
	for _, c := range x.calls {
		longest = max(longest, c.Timeout())
	}
	return x.o.Handle + x.o.Wait + turn + longest
}

// intend stores what is to be asked for, instead of all else that the handler did: only if no entity moved in
// between. The message is then parked, and in our hands for as long as a claim lasts, or we live.
func (x *Executor[TTx]) intend(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	intake store.Intake, c store.Call, d decide.Decision) Result {
	begun := x.o.Now()
	own := &partition.Entry{Delivery: e.Delivery, Given: e.Given, Step: e.Step, Call: &c,
		Since: begun, Lease: x.Lease(turnOfIntended)}
	k := x.Parcel(e)
	k.Call, k.Due, k.Session = &c, own.Lease, e.InHandOf()
	own.Parked = &k.Parked
	k.Step = nil
	if e.Parked == nil {
		// nobody of its key was parked between the two transactions: whoever was may wait for this call, and
		// it for him
		k.MostRows = 1
	}
	effect := store.Effect{Park: k, Step: becomes(e, d.Step, 0, ""), Locks: slices.Clone(intake.Locks)}
	if effect.Step != nil {
		effect.Step.OutsideKey = c.Key
	}
	for i, version := range unit.Found().Locks {
		effect.Locks[i].Version = version
	}
	stands, err := unit.Rollback(ctx, effect)
	switch {
	case err != nil:
		err = fmt.Errorf("intend the call of %s: %w", partition.Shown(e.Given.ID), err)
		if e.Parked != nil && !store.Incurable(err) && (ctx.Err() != nil || x.Away(err)) {
			x.retell(ctx, effect)
			return Result{Entry: e, What: decide.Outage, Err: err}
		}
		x.giveBack(ctx, own, x.db.Apply) // it may stand all the same
		return x.storeFailed(ctx, e, err)
	case !stands[0]:
		x.giveBack(ctx, e, x.db.Apply)
		r := Result{Entry: e, What: decide.Again,
			Err: fmt.Errorf("intend the call of %s: %w", partition.Shown(e.Given.ID), store.ErrLost)}
		if e.Again > 0 { // what was in the way once is found by the next intake
			r.After = backoff.After(e.Again, x.o.Retry.InitialInterval, x.o.Retry.MaxInterval)
		}
		return r
	}
	return Result{Entry: own, What: decide.Calling}
}

// intendAgain stores once more what e is to ask for, under the key that its step knows. The call may have
// been made, as long ago as e is kept: so it is left to who claims e next, who looks it up first.
func (x *Executor[TTx]) intendAgain(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	intake store.Intake) Result {
	key := e.Stood.OutsideKey
	_, err := x.run(fenced(ctx, intake.Locks, unit.Found().Locks), e, unit)
	var outside *Intent
	if !errors.As(err, &outside) {
		if err == nil {
			err = errors.New("nothing is to be asked for")
		}
		err = fmt.Errorf("intend the call of %s again, which its step is at under key %s: %w",
			partition.Shown(e.Given.ID), key, err)
		return x.lentFailed(ctx, e, unit, err)
	}
	c := outside.Call
	c.Key, c.Since = key, e.Parked.Since
	k := x.Parcel(e)
	k.Call, k.Due = &c, x.o.Retry.InitialInterval
	return x.store(ctx, e, unit.Rollback, store.Effect{Park: k},
		Result{Entry: e, What: decide.Later, After: k.Due})
}

// retell lets a claimed message be claimed again soon whose intent was not answered. It stands, or it does
// not: in no case may the message be kept without its call, or with it, where its step says otherwise.
func (x *Executor[TTx]) retell(ctx context.Context, effect store.Effect) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	id := effect.Park.Identity
	kept, err := store.ListParked(ctx, x.db, store.ParkedQuery{Consumer: x.o.Group, Identity: &id, Limit: 1})
	if err != nil {
		return // it is claimed again when its lease is over
	}
	if len(kept) == 1 && kept[0].Call != nil && kept[0].Call.Key == effect.Park.Call.Key {
		p := kept[0]
		if p.Session != effect.Park.Session {
			return // somebody else has it in hand by now
		}
		effect = store.Effect{Park: asRead(&p)}
	}
	effect.Park.Due, effect.Park.Claims, effect.Park.Session = x.o.Retry.InitialInterval, 0, ""
	_, _ = x.db.Apply(ctx, effect)
}

// asRead keeps p only while it stands as it was read.
func asRead(p *store.Parked) *store.Park {
	k := &store.Park{Parked: *p, Was: &p.Attempts,
		WasClaim: &store.Claim{Claims: p.Claims, Session: p.Session}}
	if p.Call != nil {
		k.WasCall = p.Call.Key
	}
	return k
}

// call makes the call that e is at, unless its answer is known, and has it settled. Begun: somebody may have
// made it before. A process may have died of a call, so it is guarded as a handler is; one that is not timely
// is not made.
func (x *Executor[TTx]) call(ctx context.Context, e *partition.Entry, begun bool) Result {
	c, there := x.calls[e.Kind()]
	if !there && x.handlers[e.Kind()] == nil {
		return x.unhandled(ctx, e, x.db.Apply)
	}
	if !there {
		err := fmt.Errorf("this build makes no call for %s", e.Type)
		return x.failure(ctx, e, x.db.Apply, skald.UnknownVersion(err))
	}
	if e.Alone && e.Call.Outcome == "" && c.Timely(x.leaseOf(e)) {
		if r, over := x.careful(ctx, e); over {
			return r
		}
	}
	return call.Make(ctx, c.Bound, owner[TTx]{x, e, begun}, *e.Call, begun)
}

// An owner is a message that is at a call.
type owner[TTx any] struct {
	x     *Executor[TTx]
	e     *partition.Entry
	begun bool // the call may have been made before
}

func (o owner[TTx]) Lease() call.Lease { return o.x.leaseOf(o.e) }

func (x *Executor[TTx]) leaseOf(e *partition.Entry) call.Lease {
	return call.Lease{Since: e.Since, For: e.Lease - x.o.Wait}
}

func (o owner[TTx]) Sending(ctx context.Context, timeout time.Duration) (context.Context, func()) {
	return skald.WithCause(ctx, o.e.Message), o.x.acts.begin(timeout, o.e)
}

func (o owner[TTx]) Answered(ctx context.Context, c store.Call) Result {
	if o.e.Call.Outcome == "" {
		o.e.Settled = o.begun
		o.e.Parked.Call = &c // kept, if what follows from it fails
	}
	o.e.Outcome = c.Outcome
	return o.x.take(ctx, o.e)
}

func (o owner[TTx]) Later(ctx context.Context, after time.Duration, err error) Result {
	return o.x.later(ctx, o.e, o.x.db.Apply, after, err)
}

func (o owner[TTx]) Failed(ctx context.Context, err error) Result {
	return o.x.failure(ctx, o.e, o.x.db.Apply, err)
}

func (o owner[TTx]) Late() Result { return Result{Entry: o.e, What: decide.Stale} }

// handler is what e is to be run by.
func (x *Executor[TTx]) handler(e *partition.Entry) Handler[TTx] {
	k := e.Kind()
	if e.Outcome == "" {
		return x.handlers[k]
	}
	settle, outcome := x.calls[k].Settle, e.Outcome
	return func(ctx context.Context, tx TTx, m skald.Message) (Reply, error) {
		return settle(ctx, tx, m, outcome)
	}
}

// settleToUndo lets the call of a message be settled by using its key up, because somebody waits to undo it;
// a dead letter too. It is asked for again as long as somebody waits: what fails here, or is lost, does no
// harm. A call that undoes the step is let go on.
func (x *Executor[TTx]) settleToUndo(ctx context.Context, id store.Identity) {
	kept, err := store.ListParked(ctx, x.db, store.ParkedQuery{Consumer: x.o.Group, Identity: &id, Limit: 1})
	if err == nil && len(kept) == 1 && kept[0].Call != nil &&
		x.steps[store.Kind{Topic: kept[0].Message.Topic,
			Type: kept[0].Message.Type}].State != store.StepUndone {
		p := kept[0]
		if p.Dead != nil {
			p.Dead, p.Attempts, p.Claims, p.CrashCount, p.Due = nil, 0, 0, 0, 0
			_, err = x.db.Apply(ctx, store.Effect{Requeue: &store.Requeue{Consumer: x.o.Group, Identity: id,
				Dead: true},
				Audit: &store.Audit{Author: "skald", Action: "redrive",
					Reason:   "its step is to be undone, and it is not known what became of its call",
					Consumer: x.o.Group, Identity: id}})
		}
		if err == nil && !p.Call.Undo {
			// due as it is: who has it in hand keeps it; who took it in hand meanwhile, or has its answer,
			// loses nothing
			p.Call.Undo = true
			_, err = x.db.Apply(ctx, store.Effect{Park: asRead(&p)})
		}
	}
	if err != nil {
		x.o.Logger.WarnContext(ctx, "inbox: have a call settled that is to be undone", "consumer", x.o.Group,
			"source", id.Source, "id", id.ID, "error", err)
	}
}
