package engine

import (
	"context"
	"errors"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/engine/internal/attempt"
	"github.com/skald-go/skald/internal/saga/engine/internal/fault"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// blame tells whether it is the fault of a that something was not stored. Else the same is tried again. What
// was thought in the same commit may be to blame as well: then it is tried again with a commit for each.
func (l *live[TTx]) blame(ctx context.Context, a plan.Action, err error) error {
	var kin *kinError
	var known *fault.Refusal
	switch {
	case err == nil, errors.As(err, &known), errors.As(err, &kin), errors.Is(err, fault.ErrMoved):
		return err
	case errors.Is(err, store.ErrLent):
		return &fault.Refusal{Action: a, Err: err}
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled),
		l.e.db.Outage(err), store.Incurable(err):
		return err
	case l.thought != nil && !l.careful:
		l.careful = true
		return fault.ErrMoved
	}
	return &fault.Refusal{Action: a, Err: err}
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

// charged stores a refusal, before anything else is begun: else it could be lost with the next one.
func (l *live[TTx]) charged(ctx context.Context) error {
	no := l.refused
	l.refused = nil
	l.think(ctx) // up to where it was
	l.feed(no.Event())
	return l.write(ctx, 0)
}

// answerRefused stores that the answer to a request cannot be stored with what its function did.
func (l *live[TTx]) answerRefused(ctx context.Context, is answer, no *fault.Refusal) error {
	if !l.again(ctx) {
		return fault.ErrMoved
	}
	if is.known { // it is not to be asked again
		l.feed(noted(no.Action, is.c))
	}
	l.feed(no.Event())
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
		l.feed(attempt.Without(e, err))
	}
}
