package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// Limits of a transaction that steps share.
const (
	shareMost = 50 * time.Millisecond // from the beginning of the transaction to that of the last step
	shareSize = 20                    // steps
	// shareRest is how long sagas of a definition do not share after a collision in a shared transaction.
	// Steps that lock rows one after the other conflict with rivals that lock them in another order.
	shareRest = time.Minute
)

// shared is a transaction in which consecutive local steps run. They commit together.
type shared struct {
	actions []plan.Action // in the order of their runs
	between []plan.State  // after each of them but the last
	since   time.Time
	timeout time.Duration // of the first step; the database ends the transaction a while later
	bytes   int           // of outputs
	closed  bool          // no other step may follow
}

// opens begins a shared transaction with a. A step shares with no other step if it failed before, has
// OwnCommit, or runs again after a group failed.
func (l *live[TTx]) opens(a plan.Action, timeout time.Duration) {
	l.share = shared{since: l.e.o.Now(), timeout: timeout, actions: []plan.Action{a}}
	l.share.closed = l.single > 0 || l.oneByOne || l.mayCrash || !l.sharable(a) ||
		l.e.collided.Recently(l.Def.Name, l.share.since)
}

// sharable reports whether a is a function that may share a transaction.
func (l *live[TTx]) sharable(a plan.Action) bool {
	step, _ := l.Def.Step(a.Step)
	if step.OwnCommit || l.function(a) == nil || l.asks(a) {
		return false
	}
	run, _ := l.State.Run(a.Step, a.Occurrence)
	return run.Attempts == 0 && run.Free.Times == 0 && run.Crashes == 0
}

// joins returns the step that runs next in the same transaction. Returns false if the steps before must be
// committed first.
func (l *live[TTx]) joins(ctx context.Context, u store.Unit[TTx]) (next plan.Action, joins bool) {
	s := &l.share
	due := l.State.Next()
	switch {
	case s.closed, len(s.actions) >= shareSize, s.bytes >= l.Def.MaxBytes,
		l.e.o.Now().Sub(s.since) >= shareMost:
		return next, false
	case l.halts(ctx), l.First(), l.oneByOne, l.Related(), len(l.rows) > 0: // messages keep their order
		return next, false
	case !due.IsZero() && !due.After(l.e.clock.Now()):
		return next, false
	}
	for _, a := range l.Next() {
		step, _ := l.Def.Step(a.Step)
		switch {
		case l.hangs(a), l.asks(a):
		case step.Child != nil, !l.sharable(a), a.Verb != s.actions[0].Verb, l.Timeout(a) > s.timeout:
			return next, false
		default:
			return a, u.Usable(ctx) == nil // on an error the commit fails, too, and reports it
		}
	}
	return next, false
}

// follows records that a runs next in the transaction.
func (s *shared) follows(a plan.Action, after plan.State) {
	s.actions, s.between = append(s.actions, a), append(s.between, after)
}

// parted converts err of a transaction that several steps shared. They run again one by one, so that only
// the failing step counts an attempt.
func (l *live[TTx]) parted(err error) error {
	s := &l.share
	var no *refusal
	var kin *familyError
	switch {
	case err == nil || len(s.actions) < 2:
		return err
	case errors.As(err, &no) && errors.Is(no.Err, store.ErrLent): // all of them may be committed
		no.Action, no.With = s.actions[0], s.actions[1:]
		return no
	case errors.As(err, &no), errors.As(err, &kin):
		l.collides(err)
		l.single = len(s.actions)
		return errMoved
	case errors.Is(err, errMoved):
		l.single = len(s.actions)
	}
	return err
}

// split rolls back a transaction in which a failed with err after other steps.
func (l *live[TTx]) split(ctx context.Context, u store.Unit[TTx], a plan.Action, err error) error {
	outside := context.WithoutCancel(ctx)
	stopped := errors.Is(context.Cause(ctx), context.Canceled) || l.givenUp.Load()
	l.collides(err)
	if err = l.undone(outside, u, a, err); !stopped && !errors.Is(err, store.ErrLent) {
		err = errMoved
	}
	return l.parted(err)
}

// collides records err if a rival's locks caused it, or state that a function left in the transaction.
func (l *live[TTx]) collides(err error) {
	if store.Contended(err) || errors.Is(err, store.ErrUnshared) {
		l.e.collided.Note(l.Def.Name, l.e.o.Now())
	}
}

// collisions are the definitions whose shared transactions met rivals. The zero value is empty.
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

// Recently reports whether sagas of a definition must not share transactions now.
func (c *collisions) Recently(name string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, is := c.last[name]
	return is && now.Sub(at) < shareRest
}
