package inbox

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

// outside is a call of one type of message.
type outside[TTx any] struct {
	call.Bound[TTx]
	settle func(ctx context.Context, tx TTx, m skald.Message, outcome string) (Result, error)
}

// intent is what the first phase of a call answers: it is no failure.
type intent struct{ call store.Call }

func (i *intent) Error() string { return "a call under key " + i.call.Key + " is to be made" }

// aheadOf does what is next about a message: all of it, or, where that is a call, one phase behind the other
// as far as it goes.
func (in *Inbox[TTx]) aheadOf(ctx context.Context, e *partition.Entry) result {
	if e.Call != nil {
		return in.call(ctx, e, true)
	}
	r := in.take(ctx, e)
	if r.what != decide.Calling {
		return r
	}
	own := r.entry
	r = in.call(ctx, own, false)
	r.entry, r.kept, e.Settled = e, true, own.Settled
	return r
}

// How long it may take to get round to what was claimed, and to what was intended just now.
const (
	turnOfClaimed  = 4 * time.Second
	turnOfIntended = 2 * time.Second
)

// lease is how long a message is ours: for a call, for what follows from it, and until it is its turn.
func (in *Inbox[TTx]) lease(turn time.Duration) time.Duration {
	longest := time.Duration(0)
	for _, c := range in.calls {
		longest = max(longest, c.Timeout())
	}
	return in.o.Timeouts.Handle + in.o.Timeouts.Wait + turn + longest
}

// intend stores what is to be asked for, instead of all else that the handler did: only if no entity moved in
// between. The message is then parked, and in our hands for as long as a claim lasts, or we live.
func (in *Inbox[TTx]) intend(ctx context.Context, e *partition.Entry, unit store.Unit[TTx], intake store.Intake, c store.Call, d decide.Decision) result {
	begun := in.o.Now()
	own := &partition.Entry{Delivery: e.Delivery, Given: e.Given, Step: e.Step, Since: begun, Lease: in.lease(turnOfIntended), Call: &c}
	k := in.parcel(e)
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
		err = fmt.Errorf("intend the call of %s: %w", e.Given.ID, err)
		if e.Parked != nil && !store.Incurable(err) && (ctx.Err() != nil || in.away(err)) {
			in.retell(ctx, effect)
			return result{entry: e, what: decide.Outage, err: err}
		}
		in.giveBack(ctx, own, in.db.Apply) // it may stand all the same
		return in.storeFailed(ctx, e, err)
	case !stands[0]:
		in.giveBack(ctx, e, in.db.Apply)
		r := result{entry: e, what: decide.Again, err: fmt.Errorf("intend the call of %s: %w", e.Given.ID, store.ErrLost)}
		if e.Again > 0 { // what was in the way once is found by the next intake
			r.after = backoff.After(e.Again, in.o.Retry.First, in.o.Retry.Most)
		}
		return r
	}
	return result{entry: own, what: decide.Calling}
}

// intendAgain stores once more what e is to ask for, under the key that its step knows. The call may have
// been made, as long ago as e is kept: so it is left to who claims e next, who looks it up first.
func (in *Inbox[TTx]) intendAgain(ctx context.Context, e *partition.Entry, unit store.Unit[TTx], intake store.Intake) result {
	key := e.Stood.OutsideKey
	_, err := in.run(fenced(ctx, intake.Locks, unit.Found().Locks), e, unit.Tx())
	var outside *intent
	if !errors.As(err, &outside) {
		if err == nil {
			err = errors.New("nothing is to be asked for")
		}
		return in.lentFailed(ctx, e, unit, fmt.Errorf("intend the call of %s again, which its step is at under key %s: %w", e.Given.ID, key, err))
	}
	c := outside.call
	c.Key, c.Since = key, e.Parked.Since
	k := in.parcel(e)
	k.Call, k.Due = &c, in.o.Retry.First
	return in.store(ctx, e, unit.Rollback, store.Effect{Park: k}, result{entry: e, what: decide.Later, after: k.Due})
}

// retell lets a claimed message be claimed again soon whose intent was not answered. It stands, or it does
// not: in no case may the message be kept without its call, or with it, where its step says otherwise.
func (in *Inbox[TTx]) retell(ctx context.Context, effect store.Effect) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	id := effect.Park.Identity
	kept, err := store.ListKept(ctx, in.db, store.Sought{Consumer: in.group, Identity: &id, Limit: 1})
	if err != nil {
		return // it is claimed again when its lease is over
	}
	if len(kept) == 1 && kept[0].Call != nil && kept[0].Call.Key == effect.Park.Call.Key {
		p := kept[0]
		if p.Session != effect.Park.Session {
			return // somebody else has it in hand by now
		}
		effect = store.Effect{Park: &store.Park{Parked: p, Was: &p.Attempts, WasCall: p.Call.Key, WasClaim: &store.Claim{Claims: p.Claims, Session: p.Session}}}
	}
	effect.Park.Due, effect.Park.Claims, effect.Park.Session = in.o.Retry.First, 0, ""
	_, _ = in.db.Apply(ctx, effect)
}

// call makes the call that e is at, unless its answer is known, and has it settled. Begun: somebody may have
// made it before.
func (in *Inbox[TTx]) call(ctx context.Context, e *partition.Entry, begun bool) result {
	c, there := in.calls[e.Kind()]
	if !there && in.handlers[e.Kind()] == nil {
		return in.unhandled(ctx, e, in.db.Apply)
	}
	if !there {
		return in.failure(ctx, e, in.db.Apply, skald.UnknownVersion(fmt.Errorf("this build makes no call for %s", e.Type)))
	}
	return call.Make(ctx, c.Bound, owner[TTx]{in, e, begun}, *e.Call, begun)
}

// An owner is a message that is at a call.
type owner[TTx any] struct {
	in    *Inbox[TTx]
	e     *partition.Entry
	begun bool // the call may have been made before
}

func (o owner[TTx]) Lease() call.Lease { return o.in.leaseOf(o.e) }

func (in *Inbox[TTx]) leaseOf(e *partition.Entry) call.Lease {
	return call.Lease{Since: e.Since, For: e.Lease - in.o.Timeouts.Wait}
}

func (o owner[TTx]) Sending(ctx context.Context, timeout time.Duration) (context.Context, func()) {
	return skald.WithCause(ctx, o.e.Message), o.in.acts.begin(o.e, timeout)
}

func (o owner[TTx]) Answered(ctx context.Context, c store.Call) result {
	if o.e.Call.Outcome == "" {
		o.e.Settled = o.begun
		o.e.Parked.Call = &c // kept, if what follows from it fails
	}
	o.e.Outcome = c.Outcome
	return o.in.take(ctx, o.e)
}

func (o owner[TTx]) Later(ctx context.Context, after time.Duration, err error) result {
	return o.in.later(ctx, o.e, o.in.db.Apply, after, err)
}

func (o owner[TTx]) Failed(ctx context.Context, err error) result {
	return o.in.failure(ctx, o.e, o.in.db.Apply, err)
}

func (o owner[TTx]) Late() result { return result{entry: o.e, what: decide.Stale} }

// handler is what e is to be run by.
func (in *Inbox[TTx]) handler(e *partition.Entry) ResultHandler[TTx] {
	k := e.Kind()
	if e.Outcome == "" {
		return in.handlers[k]
	}
	settle, outcome := in.calls[k].settle, e.Outcome
	return func(ctx context.Context, tx TTx, m skald.Message) (Result, error) {
		return settle(ctx, tx, m, outcome)
	}
}

// settleToUndo lets the call of a message be settled by using its key up, because somebody waits to undo it;
// a dead letter too. It is asked for again as long as somebody waits: what fails here, or is lost, does no
// harm. A call that undoes the step is let go on.
func (in *Inbox[TTx]) settleToUndo(ctx context.Context, id store.Identity) {
	kept, err := store.ListKept(ctx, in.db, store.Sought{Consumer: in.group, Identity: &id, Limit: 1})
	if err == nil && len(kept) == 1 && kept[0].Call != nil && in.steps[store.Kind{Topic: kept[0].Message.Topic, Type: kept[0].Message.Type}].state != store.StepUndone {
		p := kept[0]
		if p.Dead != nil {
			p.Dead, p.Attempts, p.Claims, p.CrashCount, p.Due = nil, 0, 0, 0, 0
			_, err = in.db.Apply(ctx, store.Effect{Requeue: &store.Requeue{Consumer: in.group, Identity: id, Dead: true},
				Audit: &store.Audit{Author: "skald", Action: "redrive", Reason: "its step is to be undone, and it is not known what became of its call", Consumer: in.group, Identity: id}})
		}
		if err == nil && !p.Call.Undo {
			// due as it is: who has it in hand keeps it; who took it in hand meanwhile, or has its answer,
			// loses nothing
			p.Call.Undo = true
			_, err = in.db.Apply(ctx, store.Effect{Park: &store.Park{Parked: p, Was: &p.Attempts, WasCall: p.Call.Key,
				WasClaim: &store.Claim{Claims: p.Claims, Session: p.Session}}})
		}
	}
	if err != nil {
		in.o.Logger.WarnContext(ctx, "inbox: have a call settled that is to be undone", "consumer", in.group, "source", id.Source, "id", id.ID, "error", err)
	}
}
