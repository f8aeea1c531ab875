package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/store"
)

// outside is a Call without its types.
type outside[TTx any] struct {
	at     *Provider
	memory time.Duration
	ask    func(ctx context.Context, c store.Call, h history) (outcome string, err error)
	settle func(ctx context.Context, tx TTx, m skald.Message, outcome string) (Result, error)
}

// intent is what the first phase of a call answers: it is no failure.
type intent struct{ call store.Call }

func (i *intent) Error() string { return "a call under key " + i.call.Key + " is to be made" }

// aheadOf does what is next about a message: all of it, or, where that is a call, one phase behind the other as far as it goes.
func (in *Inbox[TTx]) aheadOf(ctx context.Context, e *entry) result {
	if e.call != nil {
		return in.call(ctx, e, true)
	}
	r := in.take(ctx, e)
	if r.what != calling {
		return r
	}
	own := r.entry
	r = in.call(ctx, own, false)
	r.entry, r.kept, e.settled = e, true, own.settled
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
		longest = max(longest, c.at.timeout)
	}
	return in.o.Handle + in.o.Wait + turn + longest
}

// intend stores what is to be asked for, instead of all else that the handler did: only if no entity moved in between. The message
// is then parked, and in our hands for as long as a claim lasts, or we live.
func (in *Inbox[TTx]) intend(ctx context.Context, e *entry, unit store.Unit[TTx], intake store.Intake, call store.Call) result {
	begun := in.o.Now()
	call.Since = begun
	own := &entry{Delivery: e.Delivery, id: e.id, step: e.step, since: begun, lease: in.lease(turnOfIntended), call: &call}
	k := in.parcel(e)
	k.Call, k.Due, k.Life = &call, own.lease, e.inHandOf()
	own.parked = &k.Parked
	k.Step = nil
	if e.parked == nil {
		k.MostRows = 1 // nobody of its key was parked between the two transactions: whoever was may wait for this call, and it for him
	}
	effect := store.Effect{Keep: k, Step: e.calling(call.Key), Locks: slices.Clone(intake.Locks)}
	for i, version := range unit.Found().Locks {
		effect.Locks[i].Version = version
	}
	stands, err := unit.Rollback(ctx, effect)
	switch {
	case err != nil:
		err = fmt.Errorf("intend the call of %s: %w", e.id.ID, err)
		if e.parked != nil && !store.Incurable(err) && (ctx.Err() != nil || in.classify(e.Message, err) == Outage) {
			in.retell(ctx, effect)
			return result{entry: e, what: outage, err: err}
		}
		in.giveBack(ctx, own, in.db.Apply) // it may stand all the same
		return in.failure(ctx, e, in.db.Apply, err)
	case !stands[0]:
		in.giveBack(ctx, e, in.db.Apply)
		r := result{entry: e, what: again, err: fmt.Errorf("intend the call of %s: %w", e.id.ID, store.ErrLost)}
		if e.again > 0 { // what was in the way once is found by the next intake
			r.after = backoff.After(e.again, in.o.RetryFirst, in.o.RetryMost)
		}
		return r
	}
	return result{entry: own, what: calling}
}

// lostCall tells whether e takes a step that is at a call of e's own, and is kept without that. Nothing here makes it so; a row that was
// written by another build, or by hand, may be. Of a message that undoes a step by a call there is none: its call and its step are
// stored by one effect, what was read before does not take the call away (store.Keep.WasCall), and the answer takes both on.
func (in *Inbox[TTx]) lostCall(e *entry, was store.Step) bool {
	_, there := in.calls[kind{e.Topic, e.Type}]
	return there && e.takes() != nil && e.parked != nil && e.call == nil && was.OutsideKey != "" && e.calls(was)
}

// intendAgain stores once more what e is to ask for, under the key that its step knows. The call may have been made, as long ago as e is
// kept: so it is left to who claims e next, who looks it up first.
func (in *Inbox[TTx]) intendAgain(ctx context.Context, e *entry, unit store.Unit[TTx], intake store.Intake, key string) result {
	_, err := in.run(fenced(ctx, intake.Locks, unit.Found().Locks), e, unit.Tx())
	var outside *intent
	if !errors.As(err, &outside) {
		if err == nil {
			err = errors.New("nothing is to be asked for")
		}
		return in.failure(ctx, e, unit.Rollback, fmt.Errorf("intend the call of %s again, which its step is at under key %s: %w", e.id.ID, key, err))
	}
	call := outside.call
	call.Key, call.Since = key, e.parked.Since
	k := in.parcel(e)
	k.Call, k.Due = &call, in.o.RetryFirst
	return in.store(ctx, e, unit.Rollback, store.Effect{Keep: k}, result{entry: e, what: later, after: k.Due})
}

// retell lets a claimed message be claimed again soon whose intent was not answered. It stands, or it does not: in no case may the
// message be kept without its call, or with it, where its step says otherwise.
func (in *Inbox[TTx]) retell(ctx context.Context, effect store.Effect) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	id := effect.Keep.Identity
	kept, err := in.db.Kept(ctx, store.Sought{Consumer: in.group, Identity: &id}, 1)
	if err != nil {
		return // it is claimed again when its lease is over
	}
	if len(kept) == 1 && kept[0].Call != nil && kept[0].Call.Key == effect.Keep.Call.Key {
		p := kept[0]
		effect = store.Effect{Keep: &store.Keep{Parked: p, Was: &p.Attempts, WasCall: p.Call.Key}}
	}
	effect.Keep.Due, effect.Keep.Claims, effect.Keep.Life = in.o.RetryFirst, 0, ""
	_, _ = in.db.Apply(ctx, effect)
}

// call makes the call that e is at, unless its answer is known, and has it settled. Begun: somebody may have made it before.
func (in *Inbox[TTx]) call(ctx context.Context, e *entry, begun bool) result {
	c, there := in.calls[kind{e.Topic, e.Type}]
	if !there && in.handlers[kind{e.Topic, e.Type}] == nil {
		return in.unhandled(ctx, e, in.db.Apply)
	}
	if !there {
		return in.failure(ctx, e, in.db.Apply, skald.UnknownVersion(fmt.Errorf("this build makes no call for %s", e.Type)))
	}
	call := *e.call
	if call.Outcome == "" {
		outcome, r := in.made(ctx, e, c, call, begun)
		if outcome == "" {
			return r
		}
		call.Outcome, e.settled = outcome, begun
		e.parked.Call = &call // kept, if what follows from it fails
	}
	e.outcome = call.Outcome
	return in.take(ctx, e)
}

// made is the answer to a call; where there is none, what becomes of the message.
func (in *Inbox[TTx]) made(ctx context.Context, e *entry, c outside[TTx], call store.Call, begun bool) (outcome string, r result) {
	ok, wait := c.at.breaker.Enter(in.o.Now())
	if !ok {
		if wait == 0 { // there is no room now
			wait = backoff.After(1, in.o.RetryFirst, in.o.RetryFirst)
		}
		return "", in.later(ctx, e, in.db.Apply, wait, fmt.Errorf("%s is not asked now", c.at.name))
	}
	h := history{begun: begun, forgotten: c.memory > 0 && in.o.Now().Sub(call.Since) >= c.memory}
	if !in.timely(e, c.at) {
		c.at.breaker.Abandon()
		return "", result{entry: e, what: stale}
	}
	outcome, err := in.send(ctx, e, c, call, h)
	var notNow *skald.LaterError
	var never *skald.PermanentError
	switch {
	case err == nil:
		c.at.breaker.Leave(false, in.o.Now())
		return outcome, r
	case ctx.Err() != nil: // we are told to stop
		c.at.breaker.Abandon()
		return "", in.failure(ctx, e, in.db.Apply, err)
	case errors.As(err, &notNow):
		c.at.breaker.Leave(false, in.o.Now())
		return "", in.later(ctx, e, in.db.Apply, notNow.After, err)
	case errors.As(err, &never):
		c.at.breaker.Leave(false, in.o.Now())
		return "", in.failure(ctx, e, in.db.Apply, err)
	}
	if c.at.breaker.Leave(true, in.o.Now()) {
		in.o.Logger.WarnContext(ctx, "inbox: a provider does not answer; it is let alone for a while", "consumer", in.group, "provider", c.at.name, "error", err)
	}
	return "", in.failure(ctx, e, in.db.Apply, &UnknownError{c.at.name, call.Key, err})
}

// timely tells whether a call that is sent now ends before others may claim its message. Time is taken as the larger of what
// two clocks say: the one stands still while the machine is suspended, the other may be set.
func (in *Inbox[TTx]) timely(e *entry, at *Provider) bool {
	now := in.o.Now()
	gone := max(now.Sub(e.since), now.Round(0).Sub(e.since.Round(0)))
	return gone+at.timeout <= e.lease-in.o.Wait
}

// send makes the call.
func (in *Inbox[TTx]) send(ctx context.Context, e *entry, c outside[TTx], call store.Call, h history) (outcome string, err error) {
	ctx, cancel := context.WithTimeout(skald.WithCause(ctx, e.Message), c.at.timeout)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return c.ask(ctx, call, h)
}

// handler is what e is to be run by.
func (in *Inbox[TTx]) handler(e *entry) ResultHandler[TTx] {
	k := kind{e.Topic, e.Type}
	if e.outcome == "" {
		return in.handlers[k]
	}
	settle, outcome := in.calls[k].settle, e.outcome
	return func(ctx context.Context, tx TTx, m skald.Message) (Result, error) {
		return settle(ctx, tx, m, outcome)
	}
}

// calling is the step of e once a call is intended that takes it, or undoes it, and goes on outside; nil: it has none.
func (e *entry) calling(key string) *store.Step {
	if e.step == nil {
		return nil
	}
	at := *e.step
	if at.State == store.StepUndone {
		at = *e.called(store.StepCalling)
		at.From = []store.StepState{e.stood.State}
		if e.stood.State == store.StepTooOld {
			at.From = []store.StepState{store.StepAbsent}
		}
		at.OutsideKey = key
		return &at
	}
	at.State, at.OutsideKey = store.StepCalling, key
	at.From = []store.StepState{store.StepAbsent, store.StepParked, store.StepDead}
	return &at
}

// called is the step that e undoes by a call, as it is to be: it stays the step of the message that took it, with its answer. Where
// nobody knows that message it is e's own.
func (e *entry) called(as store.StepState) *store.Step {
	at := *e.step
	at.State, at.From, at.Outcome = as, []store.StepState{store.StepCalling}, e.outcome
	at.Code, at.Result = e.stood.Code, e.stood.Result
	if at.Identity = e.stood.Identity; at.Identity == (store.Identity{}) {
		at.Identity = e.identity()
	}
	return &at
}

// called is s once its call is settled: what was refused did not take effect, whatever its handler made of it; nil for none.
func called(s *store.Step, outcome string, code int32, result string) *store.Step {
	if s == nil {
		return nil
	}
	at := *s
	if at.State = store.StepDone; declined(outcome) {
		at.State = store.StepRejected
	}
	at.From, at.Code, at.Result, at.Outcome = []store.StepState{store.StepCalling}, code, result, outcome
	return &at
}

// declined tells whether the provider said no.
func declined(outcome string) bool {
	var o struct{ Refused bool }
	return json.Unmarshal([]byte(outcome), &o) == nil && o.Refused
}

// settleToUndo lets the call of a message be settled by using its key up, because somebody waits to undo it; a dead letter too. It
// is asked for again as long as somebody waits: what fails here, or is lost, does no harm. A call that undoes the step is let go on.
func (in *Inbox[TTx]) settleToUndo(ctx context.Context, id store.Identity) {
	kept, err := in.db.Kept(ctx, store.Sought{Consumer: in.group, Identity: &id}, 1)
	if err == nil && len(kept) == 1 && kept[0].Call != nil && in.steps[kind{kept[0].Message.Topic, kept[0].Message.Type}].state != store.StepUndone {
		p := kept[0]
		if p.Dead != nil {
			p.Dead, p.Attempts = nil, 0
			_, err = in.db.Apply(ctx, store.Effect{Release: &store.Release{Consumer: in.group, Identity: id},
				Audit: &store.Audit{Who: "skald", What: "redrive", Why: "its step is to be undone, and it is not known what became of its call", Consumer: in.group, Identity: id}})
		}
		if err == nil && !p.Call.Undo {
			p.Call.Undo = true // due as it is: who has it in hand keeps it
			_, err = in.db.Apply(ctx, store.Effect{Keep: &store.Keep{Parked: p, Was: &p.Attempts, WasCall: p.Call.Key}})
		}
	}
	if err != nil {
		in.o.Logger.WarnContext(ctx, "inbox: have a call settled that is to be undone", "consumer", in.group, "source", id.Source, "id", id.ID, "error", err)
	}
}
