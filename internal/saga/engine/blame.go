package engine

import (
	"context"
	"errors"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// blame tells whether it is the fault of a that something was not stored. Else the same is tried again. What
// was thought in the same commit may be to blame as well: then it is tried again with a commit for each.
func (l *live[TTx]) blame(ctx context.Context, a plan.Action, err error) error {
	var kin *familyError
	var known *refusal
	switch {
	case err == nil, errors.As(err, &known), errors.As(err, &kin), errors.Is(err, errMoved),
		errors.Is(err, errCrowded):
		return err
	case errors.Is(err, store.ErrLent):
		return &refusal{Action: a, Err: err}
	case ctx.Err() != nil, l.givenUp.Load(), store.Incurable(err):
		return err
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), l.e.db.Outage(err):
		if _, up := l.e.up(); !up || l.tryInPlace(a) {
			return err
		}
		err = skald.Outage(err)
	case l.Doubt():
		return errMoved
	}
	return &refusal{Action: a, Err: err}
}

// unwritten is blame for what was not written in the transaction that the function of a was lent.
func (l *live[TTx]) unwritten(ctx context.Context, a plan.Action, err error) error {
	if shut(err) {
		return &refusal{Action: a, Err: err}
	}
	return l.blame(ctx, a, lost(err, a, l.Row.Version))
}

// blamed is blame for a write of what was thought alone.
func (l *live[TTx]) blamed(ctx context.Context, err error) error {
	if l.Thought() == nil || l.Related() {
		return err
	}
	return l.blame(ctx, *l.Thought(), err)
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
	l.Think(ctx) // up to where it was
	l.Feed(no.Event())
	return l.write(ctx, 0)
}

// answerRefused stores that the answer to a request cannot be stored with what its function did.
func (l *live[TTx]) answerRefused(ctx context.Context, is answer, no *refusal) error {
	if !l.again(ctx) {
		return errMoved
	}
	if is.Known { // it is not to be asked again
		l.Feed(noted(no.Action, is.Call))
	}
	l.Feed(no.Event())
	l.Think(ctx)
	return l.write(ctx, 0)
}
