package engine

import (
	"context"
	"errors"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// awaitCommit waits until the caller of Start has committed, if the first action needs a user's transaction.
// Without such an action the first write detects a missing saga itself. Appear returns false if the saga does
// not appear in time.
func (l *live[TTx]) awaitCommit(ctx context.Context) bool {
	l.pauseFor(ctx, l.e.commits.Usual()-l.e.o.Now().Sub(l.since))
	todo := l.Pending()
	if len(todo) == 0 || !l.inTx(todo[0]) {
		return true
	}
	if l.leaseLeft() > 0 && !l.e.stopping() && l.tryBegin(ctx, todo[0]) {
		l.unseen = false
		l.e.commits.Observed()
		return true
	}
	l.e.commits.Missed()
	moved := false // by Cancel or a signal, which release the saga: an engine claims it again
	// tryBegin has released the worker, so polling blocks no other saga.
	there := l.untilSeen(ctx, func(s store.Saga) bool {
		moved = s.Version != l.Row.Version
		return moved || l.tryBegin(ctx, todo[0])
	})
	return there && !moved
}

// tryBegin opens the transaction of the first action. It returns false if that failed, usually because the
// start is not committed yet.
func (l *live[TTx]) tryBegin(ctx context.Context, a plan.Action) bool {
	u, err := l.begin(ctx, l.Timeout(a)+graceTime)
	if l.unit = u; err != nil {
		l.rollback(ctx)
	}
	if errors.Is(err, errCrowded) {
		l.crowded(ctx) // if the saga is not committed, its release writes nothing
		return false
	}
	l.logUnsure(ctx, err)
	return err == nil
}

// awaitStart waits for the caller's commit after a write that found no saga. It returns unchanged=true if
// nothing else has written the saga, and exists=false if the saga did not appear.
func (l *live[TTx]) awaitStart(ctx context.Context) (unchanged, exists bool) {
	l.e.commits.Missed()
	exists = l.untilSeen(ctx, func(s store.Saga) bool {
		unchanged = s.Version == l.Row.Version
		return true
	})
	return unchanged, exists
}

// untilSeen polls, with growing pauses, until the saga is committed and enough returns true. It returns false
// if the lease ends or the engine stops. It also returns false if the key has another saga: then this start
// was rolled back.
func (l *live[TTx]) untilSeen(ctx context.Context, enough func(store.Saga) bool) (seen bool) {
	wait := soonest
	for l.leaseLeft() > 0 && !l.e.stopping() && ctx.Err() == nil {
		s, there, err := l.e.find(ctx, l.Row.Name, l.Row.Key)
		l.logUnsure(ctx, err)
		switch {
		case err != nil, !there:
		case s.ID != l.Row.ID:
			return false
		case enough(s):
			l.unseen = false
			return true
		}
		l.pauseFor(ctx, wait)
		wait = min(2*wait, time.Second)
	}
	if l.e.stopping() {
		l.drop(ctx)
	}
	return false
}

// logUnsure logs an error because of which the engine cannot tell whether the start is committed.
func (l *live[TTx]) logUnsure(ctx context.Context, err error) {
	if err != nil && !errors.Is(err, errMoved) && ctx.Err() == nil {
		l.outages++
		l.logUnstored(ctx, err)
	}
}

func (l *live[TTx]) pauseFor(ctx context.Context, wait time.Duration) {
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
