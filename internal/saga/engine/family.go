package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/skald-go/skald/internal/saga/body"
	"github.com/skald-go/skald/internal/saga/engine/internal/fault"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/saga/stored"
	"github.com/skald-go/skald/store"
)

// A relative is a child that is to be started, or told to turn back, in the commit that says so of its
// parent.
type relative struct {
	a    plan.Action
	d    *body.Definition
	step string // that it is the child of, by the name that its run has for life
	key  string
	in   json.RawMessage // of one that is started
}

// A kinError is what makes a parent's step fail: its transaction is rolled back first.
type kinError struct {
	a   plan.Action
	err error
}

func (e *kinError) Error() string { return e.err.Error() }

// ended is what a Child puts out: saga.Ended.
type ended struct{ ID, Key string }

// child has a child started, or told to turn back.
func (l *live[TTx]) child(a plan.Action, step *body.Step) {
	e := plan.Event{What: plan.Sent, Step: a.Step, Occurrence: a.Occurrence}
	run, _ := l.state.Run(a.Step, a.Occurrence)
	r := relative{a: a, d: step.Child.Definition, step: run.Born()}
	f := l.facts(a)
	err := l.guard(func() (err error) {
		var was ended
		switch a.Verb {
		case plan.RunStep:
			in, err := step.Child.Input(f)
			if err != nil {
				return err
			}
			if r.key, r.in, err = r.d.Encode(in); err != nil {
				return err
			}
			e.Memo, err = json.Marshal(ended{Key: r.key})
			return err
		case plan.UndoStep:
			e.What, e.Memo = plan.UndoSent, run.Output
			err = json.Unmarshal(run.Output, &was)
		default:
			err = json.Unmarshal(run.Memo, &was)
		}
		r.key = was.Key
		return err
	})
	if err == nil {
		err = l.feedData(e)
	}
	if err != nil {
		l.wrong(a, err)
		return
	}
	l.family = append(l.family, r)
}

// putRelated writes m in a transaction with what other sagas are told.
func (l *live[TTx]) putRelated(ctx context.Context, m store.SagaMove) error {
	if err := l.slot(ctx); err != nil {
		return err
	}
	defer l.free()
	u, err := l.e.db.Begin(ctx, store.Intake{})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	others, err := l.relate(ctx, u.Tx())
	if err != nil {
		_, _ = u.Rollback(ctx)
		return err
	}
	if err := u.Commit(ctx, append([]store.Effect{{Saga: &m, Rows: l.rows}}, others...)...); err != nil {
		return fault.Moved(err)
	}
	l.wrote(m)
	return nil
}

// relate does in tx what concerns other sagas, and returns what is to be written of them.
func (l *live[TTx]) relate(ctx context.Context, tx TTx) (es []store.Effect, err error) {
	if !l.related() {
		return nil, nil
	}
	if l.state.Status.Final() {
		if es, err = l.ascend(ctx, tx, l.saga, l.state, l.origin.Parent); err != nil {
			return nil, err
		}
	}
	for _, r := range l.family {
		e, err := l.relateTo(ctx, tx, r)
		if err != nil {
			return nil, err
		}
		if e != nil {
			es = append(es, *e)
		}
	}
	return es, nil
}

func (l *live[TTx]) relateTo(ctx context.Context, tx TTx, r relative) (*store.Effect, error) {
	parent := stored.Parent{Name: l.saga.Name, Key: l.saga.Key, ID: l.saga.ID, Step: r.step,
		Occurrence: r.a.Occurrence}
	if r.in != nil {
		from := stored.Origin{Correlation: l.origin.Correlation, Causation: l.origin.Causation,
			Trace: l.origin.Trace, Parent: &parent}
		s, fresh, err := l.e.start(ctx, tx, r.d, r.key, r.in, from)
		var other *OtherError
		switch {
		case errors.As(err, &other):
			return nil, &kinError{r.a, err}
		case err != nil:
			return nil, err
		case fresh:
			l.then = append(l.then, func() { l.e.hand(s, r.d) })
			return nil, nil
		}
		return nil, l.own(s, parent, r)
	}
	s, there, err := l.e.lock(ctx, tx, r.d.Name, r.key)
	if err != nil {
		return nil, fmt.Errorf("lock a child: %w", err)
	}
	if !there {
		return nil, &kinError{r.a, fmt.Errorf("the child %s %q is not kept any more", r.d.Name, r.key)}
	}
	if err := l.own(s, parent, r); err != nil {
		return nil, err
	}
	e := plan.Event{What: plan.Cancel, Reason: "its parent turned back"}
	if r.a.Verb == plan.UndoStep {
		e.What = plan.Recall
	}
	m, out, err := l.e.advance(ctx, s, e)
	switch {
	case err != nil:
		return nil, err
	case out == plan.TooLate && e.What == plan.Recall:
		return nil, &kinError{r.a, fmt.Errorf("the child %s %q is past its pivot", r.d.Name, r.key)}
	case !out.Changed():
		return nil, nil
	}
	m.SagaMove = stored.Left(m.SagaMove)
	return &store.Effect{Saga: &m.SagaMove}, nil
}

// own refuses a saga that is another one's child, or nobody's.
func (l *live[TTx]) own(s store.Saga, parent stored.Parent, r relative) error {
	o, err := stored.OriginOf(s)
	if err == nil && (o.Parent == nil || *o.Parent != parent) {
		err = fmt.Errorf("the saga %s %q was not started by this step", s.Name, s.Key)
	}
	if err != nil {
		return &kinError{r.a, err}
	}
	return nil
}

// ascend tells a parent that its child has ended, and its parent, if it ends with that.
func (l *live[TTx]) ascend(ctx context.Context, tx TTx, child store.Saga, as plan.State,
	parent *stored.Parent) (es []store.Effect, err error) {
	if parent == nil {
		return nil, nil
	}
	s, there, err := l.e.lock(ctx, tx, parent.Name, parent.Key)
	if err != nil {
		return nil, fmt.Errorf("lock the parent: %w", err)
	}
	if !there || s.ID != parent.ID {
		l.e.o.Logger.WarnContext(ctx, "saga: the parent of a child that ended is not kept any more", "saga",
			child.Name, "key", child.Key,
			"parent", parent.Name, "parent key", parent.Key)
		return nil, nil
	}
	was, err := stored.StateOf(s, 0)
	if err != nil {
		return nil, err
	}
	run := bornAs(was, parent)
	e := plan.Event{What: plan.Rejected, Step: run.Step, Occurrence: run.Occurrence}
	switch {
	case as.Status == plan.Done:
		e.What = plan.Succeeded
		e.Output, err = json.Marshal(ended{child.ID, child.Key})
	case run.Phase == plan.Undo || run.Phase == plan.Undoing:
		e.What = plan.UndoDone
	default:
		e.Reason = reason(as)
	}
	if err != nil {
		return nil, err
	}
	m, out, err := l.e.advance(ctx, s, e)
	if err != nil {
		return nil, err
	}
	if !out.Changed() {
		l.e.o.Logger.WarnContext(ctx, "saga: a child ended, and its parent does not wait for it", "saga",
			child.Name, "key", child.Key,
			"parent", parent.Name, "parent key", parent.Key, "outcome", string(out))
		return nil, nil
	}
	l.then = append(l.then, m.tell)
	es = []store.Effect{{Saga: &m.SagaMove}}
	if !m.Final {
		return es, nil
	}
	from, err := stored.OriginOf(s)
	if err != nil {
		return nil, err
	}
	more, err := l.ascend(ctx, tx, s, m.state, from.Parent)
	return append(es, more...), err
}

// bornAs is the parent's run whose child it is, whatever its step is called now.
func bornAs(of plan.State, parent *stored.Parent) (run plan.Run) {
	if i := slices.IndexFunc(of.Runs, func(r plan.Run) bool {
		return r.Born() == parent.Step && r.Occurrence == parent.Occurrence
	}); i >= 0 {
		run = of.Runs[i]
	}
	return run
}

// reason says why a saga turned back.
func reason(s plan.State) string {
	if s.Cause == nil {
		return "it turned back"
	}
	text := "it turned back: " + string(s.Cause.Why)
	if s.Cause.Step != "" {
		text += " at " + stored.Name(s.Cause.Step, s.Cause.Occurrence)
	}
	if s.Cause.Reason != "" {
		text += ": " + s.Cause.Reason
	}
	return text
}
