package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// Limits of a transaction that several steps of one saga share.
const (
	shareMost = 50 * time.Millisecond // the last step begins within this time
	shareSize = 20                    // steps
	// shareRest is the time for which sagas of a definition share no transactions after a lock conflict in a
	// shared one. Several steps in one transaction lock more rows, and may conflict with transactions that
	// lock them in another order.
	shareRest = time.Minute
)

// shared is a transaction in which consecutive local steps run. They commit together. A shared transaction
// may also have only one step.
type shared struct {
	actions []plan.Action // in the order of their runs
	between []plan.State  // states after each action except the last
	since   time.Time
	timeout time.Duration // of the first step; the database ends the transaction some seconds later
	bytes   int           // size of the outputs
	closed  bool          // no other step may follow
}

// openShared begins a shared transaction with a. No other step may follow if a failed before, has OwnCommit,
// or runs again after a shared transaction failed.
func (l *live[TTx]) openShared(a plan.Action, timeout time.Duration) {
	l.share = shared{since: l.e.o.Now(), timeout: timeout, actions: []plan.Action{a}}
	l.share.closed = l.single > 0 || l.oneByOne || l.mayCrash || !l.sharable(a) ||
		l.e.collided.Recently(l.Def.Name, l.share.since)
}

// sharable reports whether a has a function that may share a transaction.
func (l *live[TTx]) sharable(a plan.Action) bool {
	step, _ := l.Def.Step(a.Step)
	if step.OwnCommit || l.function(a) == nil || l.isReadyRequest(a) {
		return false
	}
	run, _ := l.State.Run(a.Step, a.Occurrence)
	return run.Attempts == 0 && run.Free.Times == 0 && run.Crashes == 0
}

// nextToShare returns the action that runs next in the same transaction. It returns false if the transaction
// must be committed first.
func (l *live[TTx]) nextToShare(ctx context.Context, u store.Unit[TTx]) (next plan.Action, joins bool) {
	s := &l.share
	due := l.State.Next()
	switch {
	case s.closed, len(s.actions) >= shareSize, s.bytes >= l.Def.MaxBytes,
		l.e.o.Now().Sub(s.since) >= shareMost:
		return next, false
	case l.halts(ctx), l.First(), l.oneByOne, l.Related(), len(l.rows) > 0: // messages must keep their order
		return next, false
	case !due.IsZero() && !due.After(l.e.clock.Now()):
		return next, false
	}
	for _, a := range l.Next() {
		step, _ := l.Def.Step(a.Step)
		switch {
		case l.hangs(a), l.isReadyRequest(a):
		case step.Child != nil, !l.sharable(a), a.Verb != s.actions[0].Verb, l.Timeout(a) > s.timeout:
			return next, false
		default:
			return a, u.Usable(ctx) == nil // if u is not usable, the commit reports the error
		}
	}
	return next, false
}

// add records that the action a runs next in the transaction. The argument before is the state before this
// action.
func (s *shared) add(a plan.Action, before plan.State) {
	s.actions, s.between = append(s.actions, a), append(s.between, before)
}

// sharedError converts the error of a transaction that several steps shared. The steps then run again one by
// one, so that only the failing step counts an attempt.
func (l *live[TTx]) sharedError(err error) error {
	s := &l.share
	var no *refusal
	var kin *familyError
	switch {
	case err == nil || len(s.actions) < 2:
		return err
	case errors.As(err, &no) && errors.Is(no.Err, store.ErrLent): // all steps may be committed
		no.Action, no.With = s.actions[0], s.actions[1:]
		return no
	case errors.As(err, &no), errors.As(err, &kin):
		l.noteCollision(err)
		l.single = len(s.actions)
		return errMoved
	case errors.Is(err, errMoved):
		l.single = len(s.actions)
	}
	return err
}

// split rolls back a shared transaction in which a failed with err after other steps.
func (l *live[TTx]) split(ctx context.Context, u store.Unit[TTx], a plan.Action, err error) error {
	outside := context.WithoutCancel(ctx)
	stopped := errors.Is(context.Cause(ctx), context.Canceled) || l.givenUp.Load()
	l.noteCollision(err)
	if err = l.rollBackAfter(outside, u, a, err); !stopped && !errors.Is(err, store.ErrLent) {
		err = errMoved
	}
	return l.sharedError(err)
}

// noteCollision records a collision if err is a lock conflict, or if a function left state in the transaction
// that disturbs other steps.
func (l *live[TTx]) noteCollision(err error) {
	if store.Contended(err) || errors.Is(err, store.ErrUnshared) {
		l.e.collided.Note(l.Def.Name, l.e.o.Now())
	}
}

// collisions has the times at which shared transactions collided, by definition. The zero value is empty. It
// is safe for concurrent use.
type collisions struct {
	mu   sync.Mutex
	last map[string]time.Time // by name
}

func (c *collisions) Note(name string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = map[string]time.Time{}
	}
	c.last[name] = now
}

// Recently reports whether a definition's shared transactions collided within shareRest, so that its sagas
// must not share now.
func (c *collisions) Recently(name string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, is := c.last[name]
	return is && now.Sub(at) < shareRest
}
