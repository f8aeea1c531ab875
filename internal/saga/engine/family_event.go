// This file has the events between parents and children.

package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// child is a saga to be started, or turned back, in the commit of its parent's state.
type child struct {
	Action plan.Action // of the parent's step
	Def    *Definition
	Key    string
	Input  json.RawMessage // of a child that is to be started
	Parent sagarow.Ancestor
}

// familyError is the reason why a child was not started or turned back. After its transaction is rolled
// back, the parent applies Event instead.
type familyError struct {
	Event plan.Event
	Err   error
}

func (e *familyError) Error() string { return e.Err.Error() }

// ended is the output of a Child: saga.ChildOutput.
type ended struct{ ID, Key string }

// Fails returns an error that makes the parent's step fail with err.
func (c *child) Fails(err error) error {
	e := failed(c.Action, err)
	e.Permanent = true
	return &familyError{e, err}
}

// Meets returns an error if s does not exist, is not the child of this step, or has ended. The end of s was
// reported to its parent before, and will not be reported again. Was is the state of the parent. For an
// undo, a child that is done is no error.
func (c *child) Meets(s store.Saga, there bool, was plan.State) error {
	if !there {
		return c.Fails(fmt.Errorf("the child %s %q was deleted", c.Def.Name, c.Key))
	}
	if err := c.own(s); err != nil || s.Ended.IsZero() {
		return err
	}
	as, err := sagarow.StateOf(s, 0)
	if err != nil || as.Status == plan.Done && c.Action.Verb == plan.UndoStep {
		return err
	}
	e, err := up(was, &c.Parent, s, as)
	if err != nil {
		return err
	}
	return &familyError{e, errors.New("the child has ended")}
}

// Undone reports whether s is this step's own child and has been undone completely.
func (c *child) Undone(s store.Saga) bool {
	return !s.Ended.IsZero() && s.Status == string(plan.Compensated) && c.own(s) == nil
}

// own returns an error if another step, or no step, started the saga.
func (c *child) own(s store.Saga) error {
	o, err := sagarow.OriginOf(s)
	if err != nil {
		return c.Fails(err)
	}
	if o.Parent == nil {
		o.Parent = &sagarow.Ancestor{}
	}
	if *o.Parent == c.Parent {
		return nil
	}
	other := o.Parent.Occurrence
	if o.Parent.Occurrence = c.Parent.Occurrence; *o.Parent == c.Parent {
		return c.Fails(fmt.Errorf("the saga %s %q is the child of another occurrence of this step, %q: "+
			"include the occurrence in the child's key", s.Name, s.Key, other))
	}
	return c.Fails(fmt.Errorf("the saga %s %q was not started by this step", s.Name, s.Key))
}

// Back returns the event that turns the child back.
func (c *child) Back() plan.Event {
	e := plan.Event{What: plan.Cancel, Reason: "its parent turned back"}
	if c.Action.Verb == plan.UndoStep {
		e.What = plan.Recall
	}
	return e
}

// Refuses returns an error for the parent's step if the child cannot be undone.
func (c *child) Refuses(e plan.Event, out plan.Outcome) error {
	if out == plan.TooLate && e.What == plan.Recall {
		return c.Fails(pastPivot(c.Def.Name, c.Key))
	}
	return nil
}

func pastPivot(name, key string) error {
	return fmt.Errorf("the child %s %q is past its pivot, so it is not undone: undo its effects by hand, then "+
		"skip its undo", name, key)
}

// up returns the event that reports the end of a child to its parent, whose state is was.
func up(was plan.State, parent *sagarow.Ancestor, child store.Saga, as plan.State) (e plan.Event, err error) {
	run := bornAs(was, parent)
	e = plan.Event{What: plan.Rejected, Step: run.Step, Occurrence: run.Occurrence}
	switch {
	case as.Status == plan.Done && run.Phase == plan.Undoing:
		e.What, e.Permanent, e.Reason = plan.UndoFailed, true, pastPivot(child.Name, child.Key).Error()
	case as.Status == plan.Done:
		e.What = plan.Succeeded
		e.Output, err = json.Marshal(ended{child.ID, child.Key})
	case run.Phase == plan.Undo || run.Phase == plan.Undoing:
		e.What = plan.UndoDone
	default:
		e.Reason = reason(as)
	}
	return e, err
}

// bornAs returns the run of the parent that started the child, also after the step was renamed.
func bornAs(of plan.State, parent *sagarow.Ancestor) (run plan.Run) {
	if i := slices.IndexFunc(of.Runs, func(r plan.Run) bool {
		return r.Born() == parent.Step && r.Occurrence == parent.Occurrence
	}); i >= 0 {
		run = of.Runs[i]
	}
	return run
}

// reason describes why a saga turned back.
func reason(s plan.State) string {
	if s.Cause == nil {
		return "it turned back"
	}
	text := "it turned back: " + string(s.Cause.Why)
	if s.Cause.Step != "" {
		text += " at " + sagarow.StepName(s.Cause.Step, s.Cause.Occurrence)
	}
	if s.Cause.Reason != "" {
		text += ": " + s.Cause.Reason
	}
	return text
}
