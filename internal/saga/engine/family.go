package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// putRelated writes m together with changes to parents and children, in one transaction. The transaction
// needs a worker.
func (l *live[TTx]) putRelated(ctx context.Context, m store.SagaUpdate) error {
	if err := l.slot(ctx); err != nil {
		return err
	}
	defer l.releaseWorker()
	u, err := l.e.db.Begin(ctx, store.Intake{})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	others, err := l.relate(ctx, u.Tx())
	if err != nil {
		_, _ = u.Rollback(ctx)
		return err
	}
	if err := u.Commit(ctx, append([]store.Effect{l.Effect(&m)}, others...)...); err != nil {
		return movedFault(err)
	}
	l.noteStored(m)
	return nil
}

// relate writes in tx the changes to parents, children and locks that the new state requires. It returns
// further effects for the commit.
func (l *live[TTx]) relate(ctx context.Context, tx TTx) (es []store.Effect, err error) {
	if !l.Related() {
		return nil, nil
	}
	if l.State.Status.Final() {
		if l.Holds() {
			if err := end(ctx, l.e.db, tx, &l.saga); err != nil {
				return nil, err
			}
			l.then = append(l.then, l.e.kick)
		}
		if es, err = l.ascend(ctx, tx, l.Row, l.State, l.Origin.Parent); err != nil {
			return nil, err
		}
	}
	children := l.Family()
	for i := range children {
		e, err := l.relateTo(ctx, tx, &children[i])
		if err != nil {
			return nil, err
		}
		if e != nil {
			es = append(es, *e)
		}
	}
	return es, nil
}

func (l *live[TTx]) relateTo(ctx context.Context, tx TTx, c *child) (*store.Effect, error) {
	if c.Input != nil {
		return nil, l.startChild(ctx, tx, c)
	}
	s, there, err := l.e.lock(ctx, tx, c.Def.Name, c.Key)
	if err != nil {
		return nil, fmt.Errorf("lock a child: %w", err)
	}
	if err := c.CheckState(s, there, l.State); err != nil {
		return nil, err
	}
	e := c.TurnBackEvent()
	m, out, err := l.e.advance(ctx, s, e)
	if err == nil {
		err = c.CheckRefusal(e, out)
	}
	if err != nil || !out.Changed() {
		return nil, err
	}
	m.SagaUpdate = sagarow.LeaveToOthers(m.SagaUpdate)
	return &store.Effect{Saga: &m.SagaUpdate}, nil
}

// startChild starts a child, or finds the child that this saga started before. After the pivot a failed step
// is retried. In this case startChild replaces the child that turned back.
func (l *live[TTx]) startChild(ctx context.Context, tx TTx, c *child) error {
	from := sagarow.Origin{Correlation: l.Origin.Correlation, Causation: l.Origin.Causation,
		Trace: l.Origin.Trace, Parent: &c.Parent, Root: l.Origin.Top()}
	s, fresh, err := l.e.startWith(ctx, tx, c, from, "")
	if c.Undone(s) {
		s, fresh, err = l.e.startWith(ctx, tx, c, from, s.ID)
	}
	var other *OtherError
	switch {
	case errors.As(err, &other):
		return c.StepError(err)
	case err != nil:
		return err
	case fresh:
		l.then = append(l.then, func() { l.e.handToLoop(s, c.Def, false) })
		return nil
	}
	return c.CheckState(s, true, l.State)
}

// startWith starts a child. The argument instead is the id of the child that it replaces, or "".
func (e *Engine[TTx]) startWith(ctx context.Context, tx TTx, c *child, from sagarow.Origin,
	instead string) (store.Saga, bool, error) {
	row, err := e.newRow(c.Def, c.Key, c.Input, from, instead)
	if err != nil {
		return row, false, err
	}
	return e.start(ctx, tx, row)
}

// ascend reports the end of a child to its parent. If the parent ends too, ascend reports that to the
// grandparent.
func (l *live[TTx]) ascend(ctx context.Context, tx TTx, child store.Saga, as plan.State,
	parent *sagarow.Ancestor) (es []store.Effect, err error) {
	if parent == nil {
		return nil, nil
	}
	s, there, err := l.e.lock(ctx, tx, parent.Name, parent.Key)
	if err != nil {
		return nil, fmt.Errorf("lock the parent: %w", err)
	}
	if !there || s.ID != parent.ID {
		l.e.o.Logger.WarnContext(ctx, "saga: a child has ended, but its parent was deleted", "saga",
			child.Name, "key", child.Key,
			"parent", parent.Name, "parent key", parent.Key)
		return nil, nil
	}
	was, err := sagarow.StateOf(s, 0)
	if err != nil {
		return nil, err
	}
	e, err := endEvent(was, parent, child, as)
	if err != nil {
		return nil, err
	}
	m, out, err := l.e.advance(ctx, s, e)
	if err != nil {
		return nil, err
	}
	if !out.Changed() {
		l.e.o.Logger.WarnContext(ctx, "saga: a child has ended, but its parent does not wait for it", "saga",
			child.Name, "key", child.Key,
			"parent", parent.Name, "parent key", parent.Key, "outcome", string(out))
		return nil, nil
	}
	l.then = append(l.then, m.notify)
	es = []store.Effect{{Saga: &m.SagaUpdate}}
	if !m.Final {
		return es, nil
	}
	if err := releaseEntities(ctx, l.e.db, tx, s.ID); err != nil {
		return nil, err
	}
	from, err := sagarow.OriginOf(s)
	if err != nil {
		return nil, err
	}
	more, err := l.ascend(ctx, tx, s, m.state, from.Parent)
	return append(es, more...), err
}
