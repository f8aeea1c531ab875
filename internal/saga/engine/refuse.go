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

// event is a refusal as the saga takes it.
func (r *refusal) event() plan.Event {
	var large *plan.TooLargeError
	switch {
	case errors.Is(r.err, store.ErrLent):
		e := failed(r.a, errEnded)
		e.Permanent, e.Stick = true, true
		return e
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
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), l.e.db.Outage(err), store.Incurable(err):
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
		return skald.Permanent(l.d.Plan.Large(l.state, e, l.e.clock.now()))
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
