package engine

import (
	"context"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// moved is the result of an event that comes from outside the engine's loop: a signal, a reply, a
// cancellation, or an event of a parent or a child.
type moved struct {
	store.SagaUpdate
	was     plan.State
	state   plan.State // the new state
	notices []plan.Action
	notify  func() // to be called after the commit
}

// advance applies events to a saga. The caller has locked the saga, or guards its write by the saga's
// version. The write releases the saga and makes it due immediately. If a worker has the saga, the worker's
// next write fails, and the worker reads the saga again.
func (e *Engine[TTx]) advance(ctx context.Context, s store.Saga,
	events ...plan.Event) (m moved, out plan.Outcome, err error) {
	p, err := e.book.Plan(ctx, s.Name, s.Hash)
	if err != nil {
		return m, plan.Unknown, err
	}
	was, err := sagarow.StateOf(s, p.Graph.Deadline)
	if err != nil {
		return m, plan.Unknown, err
	}
	now := e.clock.Now()
	next, actions, outs := p.AdvanceAll(was, events, now)
	for i := range outs {
		switch out = outs[i]; {
		case out == plan.TooLarge:
			return m, out, skald.Permanent(p.Large(was, events[i], now))
		case out == plan.Unknown && events[i].What == plan.Signal:
			return m, out, skald.Permanent(p.NoSignal(was, events[i].Name, events[i].Occurrence))
		}
		if out.Changed() {
			break
		}
	}
	if !out.Changed() {
		return m, out, nil
	}
	if m.SagaUpdate, err = sagarow.ReleaseMove(s, next, now, len(p.Pending(next)) > 0); err != nil {
		return m, out, err
	}
	m.state, m.was, m.notices = next, was, actions
	m.notify = func() {
		e.tally.Moved(s, was, next)
		e.notify(s, next, actions)
		e.kick()
	}
	return m, out, nil
}

// put applies an event to a saga in tx. It returns exists=false if the saga does not exist.
func (e *Engine[TTx]) put(ctx context.Context, tx TTx, name, key string,
	ev plan.Event) (out plan.Outcome, exists bool, err error) {
	s, exists, err := e.lock(ctx, tx, name, key)
	if err != nil {
		return plan.Unknown, exists, fmt.Errorf("lock the saga %s %q: %w", name, key, err)
	}
	if !exists {
		return plan.Unknown, false, nil
	}
	m, out, err := e.advance(ctx, s, ev)
	if err != nil || !out.Changed() {
		return out, true, err
	}
	m.SagaUpdate = sagarow.LeaveToOthers(m.SagaUpdate)
	if err := e.db.Write(ctx, tx, store.Effect{Saga: &m.SagaUpdate}); err != nil {
		return out, true, fmt.Errorf("write the saga %s %q: %w", name, key, err)
	}
	e.tally.Moved(s, m.was, m.state) // the caller may still roll back
	e.tally.Alarms(s, m.notices)
	e.kick() // the change is visible once the caller has committed
	return out, true, nil
}
