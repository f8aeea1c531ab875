package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// notify logs the alarms that a write of a saga caused. If the saga has ended, notify wakes its waiters.
func (e *Engine[TTx]) notify(s store.Saga, st plan.State, notices []plan.Action) {
	e.tally.Alarms(s, notices)
	for _, a := range notices {
		if a.Verb == plan.Finish {
			e.noteEnd(s, st)
		}
	}
}

// noteEnd counts the end of a saga, and notifies its waiters.
func (e *Engine[TTx]) noteEnd(s store.Saga, st plan.State) {
	e.tally.Ended(s, st.Status, e.clock.Now())
	e.o.Logger.Debug("saga: ended", "saga", s.Name, "key", s.Key, "status", string(st.Status))
	e.wake(endNotifier{Saga: s, State: st})
}

// wake sends the end of a saga to its waiters in this process.
func (e *Engine[TTx]) wake(is endNotifier) {
	at := refOf(is.Saga)
	e.mu.Lock()
	if l := e.working[at]; l != nil {
		l.ended.Store(true) // before the notification: see here
	}
	e.mu.Unlock()
	e.waiters.Notify(at, is)
}

func refOf(s store.Saga) store.SagaRef { return store.SagaRef{Name: s.Name, Key: s.Key} }

// worksOn reports whether this process works on a saga, or will begin to. In both cases it will notify the
// waiters of the saga's end.
func (e *Engine[TTx]) worksOn(at store.SagaRef) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.working[at]
	return l != nil && !l.ended.Load() || e.arriving[at]
}

// Await waits until a saga has ended, and returns its final state. It returns immediately when this process
// ends the saga. For sagas of other processes it polls the database with growing pauses of at most one
// second. It returns a *NoSagaError if the saga does not exist.
func (e *Engine[TTx]) Await(ctx context.Context, name, key string) (store.Saga, plan.State, error) {
	fail := func(err error) (store.Saga, plan.State, error) {
		return store.Saga{}, plan.State{}, fmt.Errorf("await %s %q: %w", name, key, err)
	}
	at := store.SagaRef{Name: name, Key: key}
	c, leave := e.waiters.Add(at)
	defer leave()
	here := e.worksOn(at)
	wait := 20 * time.Millisecond
	if here {
		wait = 250 * time.Millisecond
	}
	for ; ; wait = min(2*wait, time.Second) {
		if !here {
			s, there, err := e.lookUp(ctx, name, key)
			switch {
			case err != nil:
				return fail(err)
			case !there:
				return fail(&NoSagaError{name, key})
			case !s.Ended.IsZero():
				st, err := sagarow.StateOf(s, 0)
				return s, st, err
			}
		}
		here = false
		timer := time.NewTimer(wait)
		select {
		case is := <-c:
			timer.Stop()
			return is.Saga, is.State, nil
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fail(ctx.Err())
		}
	}
}

// Find returns the saga of a key and its state, or a *NoSagaError.
func (e *Engine[TTx]) Find(ctx context.Context, name, key string) (store.Saga, plan.State, error) {
	s, there, err := e.lookUp(ctx, name, key)
	var st plan.State
	switch {
	case err == nil && there:
		st, err = sagarow.StateOf(s, 0)
	case err == nil:
		err = &NoSagaError{name, key}
	}
	if err != nil {
		return store.Saga{}, plan.State{}, fmt.Errorf("find %s %q: %w", name, key, err)
	}
	return s, st, nil
}

// lookMany limits the concurrent database queries of Await. Thousands of queries would wait for connections
// until storeTimeout, and fail.
const lookMany = 4

// lookUp is find, with at most lookMany calls at a time.
func (e *Engine[TTx]) lookUp(ctx context.Context, name, key string) (s store.Saga, there bool, err error) {
	select {
	case e.lookers <- struct{}{}:
		defer func() { <-e.lookers }()
		return e.find(ctx, name, key)
	case <-ctx.Done():
		return s, false, ctx.Err()
	}
}

// find reads a saga. It returns exists=false if the saga does not exist.
func (e *Engine[TTx]) find(ctx context.Context, name, key string) (s store.Saga, exists bool, err error) {
	if !sagarow.Named(name, key) {
		return s, false, nil // an empty key would match any saga
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	ss, err := store.ListSagas(ctx, e.db, store.SagaQuery{Name: name, Key: key, Limit: 1})
	if err != nil || len(ss) == 0 {
		return s, false, err
	}
	return ss[0], true, nil
}
