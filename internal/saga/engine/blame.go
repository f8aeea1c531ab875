package engine

import (
	"context"
	"errors"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// blame decides whether the action a is the reason for err, the error of a commit. If so, it returns a
// refusal, which counts as a failed attempt of a. Otherwise the caller retries the commit. If other prepared
// actions in the same commit may be the reason, each is first retried in its own commit.
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
		if _, up := l.e.databaseUp(); !up || l.tryInPlace(a) {
			return err
		}
		err = skald.Outage(err)
	case l.StoreOneByOne():
		return errMoved
	}
	return &refusal{Action: a, Err: err}
}

// blameCommit is blame for a commit in the transaction that the function of a used.
func (l *live[TTx]) blameCommit(ctx context.Context, a plan.Action, err error) error {
	if shut(err) {
		return &refusal{Action: a, Err: err}
	}
	return l.blame(ctx, a, lost(err, a, l.Row.Version))
}

// blamePrepared is blame for a write without a function: the last prepared action may be the reason.
func (l *live[TTx]) blamePrepared(ctx context.Context, err error) error {
	if l.Prepared() == nil || l.Related() {
		return err
	}
	return l.blame(ctx, *l.Prepared(), err)
}

// rollBackAfter rolls u back after err. If the rollback shows that the function of a ended the transaction
// itself, rollBackAfter returns a refusal of a. Otherwise it returns err.
func (l *live[TTx]) rollBackAfter(ctx context.Context, u store.Unit[TTx], a plan.Action, err error) error {
	if _, back := u.Rollback(ctx); errors.Is(back, store.ErrLent) {
		return l.blame(ctx, a, back)
	}
	return err
}

// storeRefusal stores a refusal before any other action, so that a crash does not lose it.
func (l *live[TTx]) storeRefusal(ctx context.Context) error {
	no := l.refused
	l.refused = nil
	l.Prepare(ctx) // the actions before it
	l.Feed(no.Event())
	return l.write(ctx, 0)
}

// answerRefused handles the result of a request after the commit of its Settle failed. It stores the
// refusal, and also the result, so that the engine does not send the request again.
func (l *live[TTx]) answerRefused(ctx context.Context, result answer, no *refusal) error {
	if !l.readAgain(ctx) {
		return errMoved
	}
	if result.Known {
		l.Feed(answerEvent(no.Action, result.Call))
	}
	l.Feed(no.Event())
	l.Prepare(ctx)
	return l.write(ctx, 0)
}
