// This file knows what parents and children among sagas tell each other.

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

// A child is one that is to be started, or told to turn back, in the commit that says so of its parent.
type child struct {
	Action plan.Action // of the parent's step
	Def    *Definition
	Key    string
	Input  json.RawMessage // of one that is started
	Parent sagarow.Ancestor
}

// An familyError is why a child is not started, or told: Event is what the parent takes in instead, once its
// transaction is rolled back.
type familyError struct {
	Event plan.Event
	Err   error
}

func (e *familyError) Error() string { return e.Err.Error() }

// ended is what a Child puts out: saga.Ended.
type ended struct{ ID, Key string }

// Fails makes the parent's step fail with err.
func (c *child) Fails(err error) error {
	e := failed(c.Action, err)
	e.Permanent = true
	return &familyError{e, err}
}

// Meets is an Error where s is not there, or is not this step's child, or has ended: whoever ended it told
// its parent, and nobody will again. Was is how the parent stands. One that is done is no error to its undo.
func (c *child) Meets(s store.Saga, there bool, was plan.State) error {
	if !there {
		return c.Fails(fmt.Errorf("the child %s %q is not kept any more", c.Def.Name, c.Key))
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

// Undone tells of this step's own child that it has turned back: nothing of it is left.
func (c *child) Undone(s store.Saga) bool {
	return !s.Ended.IsZero() && s.Status == string(plan.Compensated) && c.own(s) == nil
}

// own refuses a saga that is another one's child, or nobody's.
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
			"let the child's key have the occurrence", s.Name, s.Key, other))
	}
	return c.Fails(fmt.Errorf("the saga %s %q was not started by this step", s.Name, s.Key))
}

// Back is the event that tells the child to turn back.
func (c *child) Back() plan.Event {
	e := plan.Event{What: plan.Cancel, Reason: "its parent turned back"}
	if c.Action.Verb == plan.UndoStep {
		e.What = plan.Recall
	}
	return e
}

// Refuses makes the parent's step fail where a child that came to out cannot be undone.
func (c *child) Refuses(e plan.Event, out plan.Outcome) error {
	if out == plan.TooLate && e.What == plan.Recall {
		return c.Fails(pastPivot(c.Def.Name, c.Key))
	}
	return nil
}

func pastPivot(name, key string) error {
	return fmt.Errorf("the child %s %q is past its pivot, so it is not undone: undo by hand what it did, then "+
		"skip its undo", name, key)
}

// up is the event that tells a parent, which stands as was, how its child has ended.
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

// reason says why a saga turned back.
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
