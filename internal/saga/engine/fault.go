// This file decides whether an action is the reason that the database refused a commit.

package engine

import (
	"errors"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// errMoved means that another process or transaction has written the saga since it was read.
var errMoved = errors.New("another transaction has changed the saga")

// refusal is an error of the database that the result of an action causes, while the database answers. The
// engine reads the saga again, and counts the refusal as a failed attempt of the action.
type refusal struct {
	Action plan.Action
	With   []plan.Action // other steps of a transaction that a function ended, so they may be committed, too
	Err    error
}

func (r *refusal) Error() string { return r.Err.Error() }
func (r *refusal) Unwrap() error { return r.Err }

// errEnded is the error of a step whose function ended the transaction. The step gets stuck, because its
// writes may be committed without the saga's state.
var errEnded = errors.New("its function ended the transaction by its own COMMIT or ROLLBACK, so its writes may be committed: " +
	"check its writes before you decide how to continue, and let it return nil to commit or an error to roll back")

// errOwn is the error of an action that writes its own saga, so that the commit of the action always fails.
var errOwn = errors.New("its own transaction writes its saga, by Cancel, Signal.Send or Answer, so it can never be committed with the saga's " +
	"next state: to turn back return skald.Reject; a later step reads the output of this one, without a signal")

// errShut is the error of an action whose function changed the transaction so that the engine cannot write in
// it.
var errShut = errors.New("its function changed the transaction so that the saga's state cannot be written in it: " +
	"RESET a role before the function returns, and do not use SET TRANSACTION READ ONLY or PRAGMA query_only, or change Skald's tables")

// Event returns the event that a refusal causes.
func (r *refusal) Event() plan.Event {
	var large *plan.TooLargeError
	switch {
	case errors.Is(r.Err, store.ErrLent):
		return r.stuckEvent(r.Action)
	case errors.Is(r.Err, errOwn):
		return failureEvent(r.Action, errOwn)
	case shut(r.Err):
		return failureEvent(r.Action, fmt.Errorf("%w: %w", errShut, bare(r.Err)))
	case errors.As(r.Err, &large):
		return failureEvent(r.Action, skald.Permanent(large))
	}
	return failureEvent(r.Action, fmt.Errorf("the database refuses its commit: %w", r.Err))
}

// stuckEvent returns the event of a step whose writes may be committed, because a function ended its
// transaction.
func (r *refusal) stuckEvent(a plan.Action) plan.Event {
	err := errEnded
	if len(r.With) > 0 {
		names := sagarow.StepName(r.Action.Step, r.Action.Occurrence)
		for _, other := range r.With {
			names += ", " + sagarow.StepName(other.Step, other.Occurrence)
		}
		err = fmt.Errorf("%w. These steps shared the transaction: %s", errEnded, names)
	}
	e := failureEvent(a, err)
	e.Permanent, e.Stick = true, true
	for _, other := range r.With {
		e.With = append(e.With, plan.Member{Step: other.Step, Occurrence: other.Occurrence,
			Undo: other.Verb == plan.UndoStep})
	}
	return e
}

// shut reports whether a user's function may have caused err, an error of the engine's own statements in the
// same transaction. A function does so by a role, by READ ONLY, or by a change of Skald's tables. If the
// function is not the cause, the engine cannot store the failure in its own transaction either. So shut never
// makes an innocent action fail.
func shut(err error) bool {
	var server interface{ SQLState() string }
	return store.Incurable(err) && !errors.Is(err, store.ErrMoved) ||
		errors.As(err, &server) && server.SQLState() == "25006"
}

// bare returns err without its advice for an operator, because the user's function is the cause.
func bare(err error) error {
	var right *store.RightError
	var schema *store.SchemaError
	switch {
	case errors.As(err, &right):
		return right.Err
	case errors.As(err, &schema):
		return fmt.Errorf("the tables of Skald are not in %s there", schema.Where)
	}
	return err
}

// aborted reports whether the transaction has failed because a function ignored an earlier error.
func aborted(err error) bool {
	var server interface{ SQLState() string }
	return errors.As(err, &server) && server.SQLState() == "25P02"
}

// movedFault converts store.ErrLost to errMoved. The version of the saga has changed.
func movedFault(err error) error {
	if errors.Is(err, store.ErrLost) {
		return errMoved
	}
	return err
}
