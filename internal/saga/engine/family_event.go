// This file converts changes of children to events of their parents, and the reverse.

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

// child is a saga that the commit of its parent's state starts or turns back.
type child struct {
	Action plan.Action // of the parent's step
	Def    *Definition
	Key    string
	Input  json.RawMessage // nil if the child is to be turned back
	Parent sagarow.Ancestor
}

// familyError is the reason for which a child was not started or turned back. The engine rolls back the
// transaction, and then applies Event to the parent.
type familyError struct {
	Event plan.Event
	Err   error
}

func (e *familyError) Error() string { return e.Err.Error() }

// ended is the JSON of saga.ChildOutput, the output of a step that starts a child.
type ended struct{ ID, Key string }

// StepError returns an error that lets the parent's step fail permanently with err.
func (c *child) StepError(err error) error {
	e := failureEvent(c.Action, err)
	e.Permanent = true
	return &familyError{e, err}
}

// CheckState checks that s is the child of this step and has not ended. It returns an error with an event
// for the parent if s was deleted, belongs to another parent, or has ended. In these cases the end of s
// will not be reported again. An undo accepts a child that is done. The argument parent is the state of the
// parent.
func (c *child) CheckState(s store.Saga, exists bool, parent plan.State) error {
	if !exists {
		return c.StepError(fmt.Errorf("the child %s %q was deleted", c.Def.Name, c.Key))
	}
	if err := c.checkOrigin(s); err != nil || s.Ended.IsZero() {
		return err
	}
	as, err := sagarow.StateOf(s, 0)
	if err != nil || as.Status == plan.Done && c.Action.Verb == plan.UndoStep {
		return err
	}
	e, err := endEvent(parent, &c.Parent, s, as)
	if err != nil {
		return err
	}
	return &familyError{e, errors.New("the child has ended")}
}

// Undone reports whether s is this step's own child and has been undone completely.
func (c *child) Undone(s store.Saga) bool {
	return !s.Ended.IsZero() && s.Status == string(plan.Compensated) && c.checkOrigin(s) == nil
}

// checkOrigin returns an error if s was not started by this step.
func (c *child) checkOrigin(s store.Saga) error {
	o, err := sagarow.OriginOf(s)
	if err != nil {
		return c.StepError(err)
	}
	if o.Parent == nil {
		o.Parent = &sagarow.Ancestor{}
	}
	if *o.Parent == c.Parent {
		return nil
	}
	other := o.Parent.Occurrence
	if o.Parent.Occurrence = c.Parent.Occurrence; *o.Parent == c.Parent {
		return c.StepError(fmt.Errorf("the saga %s %q is the child of another occurrence of this step, %q: "+
			"include the occurrence in the child's key", s.Name, s.Key, other))
	}
	return c.StepError(fmt.Errorf("the saga %s %q was not started by this step", s.Name, s.Key))
}

// TurnBackEvent returns the event that turns the child back.
func (c *child) TurnBackEvent() plan.Event {
	e := plan.Event{What: plan.Cancel, Reason: "its parent turned back"}
	if c.Action.Verb == plan.UndoStep {
		e.What = plan.Recall
	}
	return e
}

// CheckRefusal returns an error for the parent's step if the child cannot be undone.
func (c *child) CheckRefusal(e plan.Event, out plan.Outcome) error {
	if out == plan.TooLate && e.What == plan.Recall {
		return c.StepError(pastPivot(c.Def.Name, c.Key))
	}
	return nil
}

func pastPivot(name, key string) error {
	return fmt.Errorf("the child %s %q is past its pivot, so it is not undone: undo its effects by hand, then "+
		"skip its undo", name, key)
}

// endEvent returns the event that reports the end of a child to its parent. The argument parentState is the
// state of the parent. The argument final is the final state of the child.
func endEvent(parentState plan.State, parent *sagarow.Ancestor, child store.Saga,
	final plan.State) (e plan.Event, err error) {
	run := startingRun(parentState, parent)
	e = plan.Event{What: plan.Rejected, Step: run.Step, Occurrence: run.Occurrence}
	switch {
	case final.Status == plan.Done && run.Phase == plan.Undoing:
		e.What, e.Permanent, e.Reason = plan.UndoFailed, true, pastPivot(child.Name, child.Key).Error()
	case final.Status == plan.Done:
		e.What = plan.Succeeded
		e.Output, err = json.Marshal(ended{child.ID, child.Key})
	case run.Phase == plan.Undo || run.Phase == plan.Undoing:
		e.What = plan.UndoDone
	default:
		e.Reason = reason(final)
	}
	return e, err
}

// startingRun returns the run of the parent that started the child. A run keeps the original name of its
// step. So startingRun also finds the run if a new definition has renamed the step.
func startingRun(parentState plan.State, parent *sagarow.Ancestor) (run plan.Run) {
	if i := slices.IndexFunc(parentState.Runs, func(r plan.Run) bool {
		return r.Born() == parent.Step && r.Occurrence == parent.Occurrence
	}); i >= 0 {
		run = parentState.Runs[i]
	}
	return run
}

// reason returns a text about the reason for which a saga turned back.
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
