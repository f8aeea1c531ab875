// This file plans, makes and settles the outside calls of messages.

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

// OutsideCall is the outside call of the messages of one kind. Settle runs in a transaction when the outcome
// of the call is known.
type OutsideCall[TTx any] struct {
	call.Bound[TTx]
	Settle func(ctx context.Context, tx TTx, m skald.Message, outcome string) (Reply, error)
}

// Intent is the error with which a handler plans an outside call. It is not a failure.
type Intent struct{ Call store.Call }

func (i *Intent) Error() string { return "an outside call with key " + i.Call.Key + " is planned" }

// MaxWaitClaimed and maxWaitIntended limit how long a message may wait for a worker: after a claim, and after
// its call was stored.
const (
	MaxWaitClaimed  = 4 * time.Second
	maxWaitIntended = 2 * time.Second
)

// Lease returns how long a claim lasts: the wait for a worker, an attempt, and the longest outside call.
func (x *Executor[TTx]) Lease(wait time.Duration) time.Duration {
	longest := time.Duration(0)
	for _, c := range x.calls {
		longest = max(longest, c.Timeout())
	}
	return x.o.Handle + x.o.Wait + wait + longest
}

// intend rolls back the work of the handler and stores the planned call, if no entity changed meanwhile. It
// parks the message with a claim of this session.
func (x *Executor[TTx]) intend(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	intake store.Intake, c store.Call, d decide.Decision) Result {
	begun := x.o.Now()
	own := &partition.Entry{Delivery: e.Delivery, Given: e.Given, Step: e.Step, Call: &c,
		Since: begun, Lease: x.Lease(maxWaitIntended)}
	k := x.NewPark(e)
	k.Call, k.Due, k.Session = &c, own.Lease, e.InHandOf()
	own.Parked = &k.Parked
	k.Step = nil
	if e.Parked == nil {
		// The store refuses the effect if a message of the key was parked between the two transactions. That
		// message and this call could wait for each other.
		k.MostRows = 1
	}
	effect := store.Effect{Park: k, Step: stepChange(e, d.Step, 0, ""), Locks: slices.Clone(intake.Locks)}
	if effect.Step != nil {
		effect.Step.OutsideKey = c.Key
	}
	for i, version := range unit.Found().Locks {
		effect.Locks[i].Version = version
	}
	applied, err := unit.Rollback(ctx, effect)
	switch {
	case err != nil:
		err = fmt.Errorf("store the outside call of %s: %w", partition.Shown(e.Given.ID), err)
		if e.Parked != nil && !store.Incurable(err) && (ctx.Err() != nil || x.Unavailable(err)) {
			x.releaseIntent(ctx, effect)
			return Result{Entry: e, What: decide.Outage, Err: err}
		}
		x.releaseClaim(ctx, own, x.db.Apply) // the effect may have been committed
		return x.storeFailed(ctx, e, err)
	case !applied[0]:
		x.releaseClaim(ctx, e, x.db.Apply)
		r := Result{Entry: e, What: decide.Again,
			Err: fmt.Errorf("store the outside call of %s: %w", partition.Shown(e.Given.ID), store.ErrLost)}
		if e.Again > 0 { // after a first conflict the next intake finds its cause
			r.After = backoff.After(e.Again, x.o.Retry.InitialInterval, x.o.Retry.MaxInterval)
		}
		return r
	}
	return Result{Entry: own, What: decide.Calling}
}

// intendAgain stores the call of e again, under the key in its step. The call may have been made since e was
// parked. So the next claim first looks up its outcome.
func (x *Executor[TTx]) intendAgain(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	intake store.Intake) Result {
	key := e.PriorStep.OutsideKey
	_, err := x.run(withVersions(ctx, intake.Locks, unit.Found().Locks), e, unit)
	var outside *Intent
	if !errors.As(err, &outside) {
		if err == nil {
			err = errors.New("the handler planned no call")
		}
		err = fmt.Errorf("store the outside call of %s again, under key %s of its step: %w",
			partition.Shown(e.Given.ID), key, err)
		return x.handlerFailed(ctx, e, unit, err)
	}
	c := outside.Call
	c.Key, c.Since = key, e.Parked.Since
	k := x.NewPark(e)
	k.Call, k.Due = &c, x.o.Retry.InitialInterval
	return x.park(ctx, e, unit.Rollback, store.Effect{Park: k},
		Result{Entry: e, What: decide.Later, After: k.Due})
}

// releaseIntent releases the claim of a message after the store did not answer to the effect that stores its
// call. The effect may be committed or not. In both cases the call of the row and the state of the step must
// match.
func (x *Executor[TTx]) releaseIntent(ctx context.Context, effect store.Effect) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	id := effect.Park.Identity
	kept, err := store.ListParked(ctx, x.db, store.ParkedQuery{Consumer: x.o.Group, Identity: &id, Limit: 1})
	if err != nil {
		return // another claim gets the message after its lease
	}
	if len(kept) == 1 && kept[0].Call != nil && kept[0].Call.Key == effect.Park.Call.Key {
		p := kept[0]
		if p.Session != effect.Park.Session {
			return // another session has claimed it
		}
		effect = store.Effect{Park: ifUnchanged(&p)}
	}
	effect.Park.Due, effect.Park.Claims, effect.Park.Session = x.o.Retry.InitialInterval, 0, ""
	_, _ = x.db.Apply(ctx, effect)
}

// ifUnchanged returns an effect that writes p only if nothing changed its row since it was read.
func ifUnchanged(p *store.Parked) *store.Park {
	k := &store.Park{Parked: *p, Was: &p.Attempts,
		WasClaim: &store.Claim{Claims: p.Claims, Session: p.Session}}
	if p.Call != nil {
		k.WasCall = p.Call.Key
	}
	return k
}

// call makes the outside call of e, unless its outcome is known, and settles it. If begun is true, the call
// may have been made before. A call may crash the process, so call guards a suspect as before a handler. It
// does not make a call that may outlast the lease.
func (x *Executor[TTx]) call(ctx context.Context, e *partition.Entry, begun bool) Result {
	c, there := x.calls[e.Kind()]
	if !there && x.handlers[e.Kind()] == nil {
		return x.unhandled(ctx, e, x.db.Apply)
	}
	if !there {
		err := fmt.Errorf("this build makes no outside call for %s", e.Type)
		return x.fail(ctx, e, x.db.Apply, skald.UnknownVersion(err))
	}
	if e.Alone && e.Call.Outcome == "" && c.Timely(x.leaseOf(e)) {
		if r, over := x.guardSuspect(ctx, e); over {
			return r
		}
	}
	return call.Make(ctx, c.Bound, owner[TTx]{x, e, begun}, *e.Call, begun)
}

// owner is a message with an outside call. It implements call.Owner.
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
	return skald.WithCause(ctx, o.e.Message), o.x.running.begin(timeout, o.e)
}

// GivesUp returns true, because the request would occupy a worker.
func (o owner[TTx]) GivesUp() bool { return true }

func (o owner[TTx]) Answered(ctx context.Context, c store.Call) Result {
	if o.e.Call.Outcome == "" {
		o.e.Settled = o.begun
		o.e.Parked.Call = &c // the parked row keeps the outcome if Settle fails
	}
	o.e.Outcome = c.Outcome
	return o.x.take(ctx, o.e)
}

func (o owner[TTx]) Later(ctx context.Context, after time.Duration, err error) Result {
	return o.x.parkFor(ctx, o.e, o.x.db.Apply, after, err)
}

func (o owner[TTx]) Failed(ctx context.Context, err error) Result {
	return o.x.fail(ctx, o.e, o.x.db.Apply, err)
}

func (o owner[TTx]) Late() Result { return Result{Entry: o.e, What: decide.Stale} }

// handler returns the handler of e. After an outside call this is the function Settle.
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

// settleForUndo requests that the call of the message id is settled by voiding its key, because another
// message waits to undo its step. If the message is a dead letter, settleForUndo also requeues it. It does
// not change a call that undoes the step. It only logs errors, because the waiting message repeats the
// request.
func (x *Executor[TTx]) settleForUndo(ctx context.Context, id store.Identity) {
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
					Reason:   "its step must be undone, and the outcome of its outside call is unknown",
					Consumer: x.o.Group, Identity: id}})
		}
		if err == nil && !p.Call.Undo {
			// The due time does not change. If a session claims or settles the message meanwhile, the store
			// refuses this write.
			p.Call.Undo = true
			_, err = x.db.Apply(ctx, store.Effect{Park: ifUnchanged(&p)})
		}
	}
	if err != nil {
		x.o.Logger.WarnContext(ctx, "inbox: request to settle a call before its undo failed",
			"consumer", x.o.Group,
			"source", id.Source, "id", id.ID, "error", err)
	}
}
