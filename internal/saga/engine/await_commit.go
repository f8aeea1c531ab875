package engine

import (
	"context"
	"errors"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// appear waits until the caller has committed what started the saga, as far as that shows before something is
// written: a first write that needs no transaction of the user's finds out by itself. False: it is not there
// in time.
func (l *live[TTx]) appear(ctx context.Context) bool {
	l.linger(ctx, l.e.commits.Usual()-l.e.o.Now().Sub(l.since))
	todo := l.Pending()
	if len(todo) == 0 || !l.inTx(todo[0]) {
		return true
	}
	if l.left() > 0 && !l.e.stopping() && l.begun(ctx, todo[0]) {
		l.unseen = false
		l.e.commits.Saw()
		return true
	}
	l.e.commits.Missed()
	moved := false // by a cancel, or a signal: the saga was released, and is claimed anew
	// Looks take no slot of the sagas that are worked on.
	there := l.untilSeen(ctx, func(s store.Saga) bool {
		moved = s.Version != l.Row.Version
		return moved || l.begun(ctx, todo[0])
	})
	return there && !moved
}

// begun reports whether the transaction of the first action could begin.
func (l *live[TTx]) begun(ctx context.Context, a plan.Action) bool {
	u, err := l.begin(ctx, l.Timeout(a)+mercy)
	if l.unit = u; err != nil {
		l.rollback(ctx)
	}
	if errors.Is(err, errCrowded) {
		l.crowded(ctx) // nothing is written where it is not there yet
		return false
	}
	l.unsure(ctx, err)
	return err == nil
}

// look waits for the same after a write that found no saga. Same: nobody else has written it meanwhile.
func (l *live[TTx]) look(ctx context.Context) (same, there bool) {
	l.e.commits.Missed()
	there = l.untilSeen(ctx, func(s store.Saga) bool {
		same = s.Version == l.Row.Version
		return true
	})
	return same, there
}

// untilSeen looks for the start again and again, less and less often, until it is there and enough says that
// it is seen. False: the lease is over, the engine stops, or another start of the key is stored: this one was
// rolled back.
func (l *live[TTx]) untilSeen(ctx context.Context, enough func(store.Saga) bool) (seen bool) {
	wait := soonest
	for l.left() > 0 && !l.e.stopping() && ctx.Err() == nil {
		s, there, err := l.e.find(ctx, l.Row.Name, l.Row.Key)
		l.unsure(ctx, err)
		switch {
		case err != nil, !there:
		case s.ID != l.Row.ID:
			return false
		case enough(s):
			l.unseen = false
			return true
		}
		l.linger(ctx, wait)
		wait = min(2*wait, time.Second)
	}
	if l.e.stopping() {
		l.drop(ctx)
	}
	return false
}

// unsure tells of an error by which nobody knows whether the start is there.
func (l *live[TTx]) unsure(ctx context.Context, err error) {
	if err != nil && !errors.Is(err, errMoved) && ctx.Err() == nil {
		l.outages++
		l.complain(ctx, err)
	}
}

func (l *live[TTx]) linger(ctx context.Context, wait time.Duration) {
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
