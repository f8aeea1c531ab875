package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// A refusal is why the database, which is there, does not take what an action came to. It is charged to that,
// once the saga was read again.
type refusal struct {
	a   plan.Action
	err error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// errEnded is what a step is stuck with whose effect may stand without the saga's state.
var errEnded = errors.New("its function ended the transaction that it was lent, by a COMMIT or ROLLBACK of its own, so what it wrote may stand: " +
	"have it return nil to commit and an error to roll back, look at what it wrote, then retry, complete or skip the step")

// A lostError is errMoved for what an action did: when it was to be committed, the saga was not as it was
// read.
type lostError struct {
	a       plan.Action
	version int64
}

func (e *lostError) Error() string { return errMoved.Error() }
func (e *lostError) Unwrap() error { return errMoved }

// errOwn is what an action is charged with that keeps itself from being committed.
var errOwn = errors.New("its own transaction writes its saga, by saga.Cancel, SendIn or Answer, so it can never be committed with the saga's " +
	"next state: to turn back return skald.Reject, and send a signal in a transaction of its own")

// lost is err of a commit of what a did.
func (l *live[TTx]) lost(a plan.Action, err error) error {
	if errors.Is(err, store.ErrLost) {
		return &lostError{a, l.saga.Version}
	}
	return err
}

// ownFault is the refusal of what writes the saga in its own transaction: twice it could not be committed,
// and nobody else has written the saga, which was read again. Nil: it is not that.
func (l *live[TTx]) ownFault(err error) *refusal {
	var lost *lostError
	if !errors.As(err, &lost) || l.saga.Version != lost.version {
		l.lostAlone = 0
		return nil
	}
	if l.lostAlone++; l.lostAlone < 2 {
		return nil
	}
	l.lostAlone = 0
	return &refusal{lost.a, errOwn}
}

// event is a refusal as the saga takes it.
func (r *refusal) event() plan.Event {
	var large *plan.TooLargeError
	switch {
	case errors.Is(r.err, store.ErrLent):
		e := failed(r.a, errEnded)
		e.Permanent, e.Stick = true, true
		return e
	case errors.Is(r.err, errOwn):
		return failed(r.a, errOwn)
	case errors.As(r.err, &large):
		return failed(r.a, skald.Permanent(large))
	}
	return failed(r.a, fmt.Errorf("the database refuses what it did: %w", r.err))
}

// blame tells whether it is the fault of a that something was not stored. Else the same is tried again. What
// was thought in the same commit may be to blame as well: then it is tried again with a commit for each.
func (l *live[TTx]) blame(ctx context.Context, a plan.Action, err error) error {
	var kin *kinError
	var known *refusal
	switch {
	case err == nil, errors.As(err, &known), errors.As(err, &kin), errors.Is(err, errMoved):
		return err
	case errors.Is(err, store.ErrLent):
		return &refusal{a, err}
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled),
		l.e.db.Outage(err), store.Incurable(err):
		return err
	case l.thought != nil && !l.careful:
		l.careful = true
		return errMoved
	}
	return &refusal{a, err}
}

// blamed is blame for a write of what was thought alone.
func (l *live[TTx]) blamed(ctx context.Context, err error) error {
	if l.thought == nil || l.related() {
		return err
	}
	return l.blame(ctx, *l.thought, err)
}

// undone rolls u back after err. Where a function has ended that transaction itself, what it did is to blame.
func (l *live[TTx]) undone(ctx context.Context, u store.Unit[TTx], a plan.Action, err error) error {
	if _, back := u.Rollback(ctx); errors.Is(back, store.ErrLent) {
		return l.blame(ctx, a, back)
	}
	return err
}

// aborted tells of an error that comes of an earlier one, which a function has swallowed.
func aborted(err error) bool {
	var server interface{ SQLState() string }
	return errors.As(err, &server) && server.SQLState() == "25P02"
}

// charged stores a refusal, before anything else is begun: else it could be lost with the next one.
func (l *live[TTx]) charged(ctx context.Context) error {
	no := l.refused
	l.refused = nil
	l.think(ctx) // up to where it was
	l.feed(no.event())
	return l.write(ctx, 0)
}

// answerRefused stores that the answer to a request cannot be stored with what its function did.
func (l *live[TTx]) answerRefused(ctx context.Context, is answer, no *refusal) error {
	if !l.again(ctx) {
		return errMoved
	}
	if is.known { // it is not to be asked again
		l.feed(noted(no.a, is.c))
	}
	l.feed(no.event())
	l.think(ctx)
	return l.write(ctx, 0)
}

// feedData is feed for an event with data: that may be too large to be kept.
func (l *live[TTx]) feedData(e plan.Event) error {
	if l.feed(e) == plan.TooLarge {
		return skald.Permanent(l.d.Plan.Large(l.state, e, l.e.clock.Now()))
	}
	return nil
}

// feedEffect is feed for what took effect. Where its output is too large to be kept it is done without, and
// turned back.
func (l *live[TTx]) feedEffect(e plan.Event) {
	if err := l.feedData(e); err != nil {
		l.feed(without(e, err))
	}
}

// without is an event of what took effect, and whose output cannot be kept.
func without(e plan.Event, err error) plan.Event {
	if e.Output = nil; e.Reason != "" {
		err = fmt.Errorf("%s; %w", e.Reason, err)
	}
	e.Reason = err.Error()
	return e
}
