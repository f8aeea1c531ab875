// This file says whose fault it is that the database does not take what a saga came to.

package engine

import (
	"errors"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// errMoved says that the saga was written by somebody else since it was read.
var errMoved = errors.New("the saga has moved on")

// A refusal is why the database, which is there, does not take what an action came to. It is charged to that,
// once the saga was read again.
type refusal struct {
	Action plan.Action
	With   []plan.Action // that may stand, too: they shared its transaction, which a function ended
	Err    error
}

func (r *refusal) Error() string { return r.Err.Error() }
func (r *refusal) Unwrap() error { return r.Err }

// errEnded is what a step is stuck with whose effect may stand without the saga's state.
var errEnded = errors.New("its function ended the transaction that it was lent, by a COMMIT or ROLLBACK of its own, so what it wrote may stand: " +
	"look at what it wrote before you say how to go on, and have it return nil to commit and an error to roll back")

// errOwn is what an action is charged with that keeps itself from being committed.
var errOwn = errors.New("its own transaction writes its saga, by Cancel, Signal.Send or Answer, so it can never be committed with the saga's " +
	"next state: to turn back return skald.Reject; a later step reads the output of this one, without a signal")

// errShut is what an action is charged with whose function has left its transaction so that nobody but a
// function can go on in it.
var errShut = errors.New("its function left the transaction that it was lent so that the saga's state cannot be written in it: " +
	"a role that it sets is to be RESET before it returns, SET TRANSACTION READ ONLY and PRAGMA query_only left out")

// Event is a refusal as the saga takes it.
func (r *refusal) Event() plan.Event {
	var large *plan.TooLargeError
	switch {
	case errors.Is(r.Err, store.ErrLent):
		return r.stands(r.Action)
	case errors.Is(r.Err, errOwn):
		return failed(r.Action, errOwn)
	case shut(r.Err):
		return failed(r.Action, fmt.Errorf("%w: %w", errShut, bare(r.Err)))
	case errors.As(r.Err, &large):
		return failed(r.Action, skald.Permanent(large))
	}
	return failed(r.Action, fmt.Errorf("the database refuses what it did: %w", r.Err))
}

// stands is the event of a step that may stand, since a function has ended its transaction.
func (r *refusal) stands(a plan.Action) plan.Event {
	err := errEnded
	if len(r.With) > 0 {
		names := sagarow.StepName(r.Action.Step, r.Action.Occurrence)
		for _, other := range r.With {
			names += ", " + sagarow.StepName(other.Step, other.Occurrence)
		}
		err = fmt.Errorf("%w. These steps shared the transaction: %s", errEnded, names)
	}
	e := failed(a, err)
	e.Permanent, e.Stick = true, true
	for _, other := range r.With {
		e.With = append(e.With, plan.Member{Step: other.Step, Occurrence: other.Occurrence,
			Undo: other.Verb == plan.UndoStep})
	}
	return e
}

// shut tells of an error of the engine's own in a transaction that was lent whether it may come of what the
// function has set there: another role, or that it only reads. Where it does not, what the engine writes in a
// transaction of its own fails as well.
func shut(err error) bool {
	var right *store.RightError
	var server interface{ SQLState() string }
	return errors.As(err, &right) || errors.As(err, &server) && server.SQLState() == "25006"
}

// bare is what the database said where a right is missing, without what to do about that; else err.
func bare(err error) error {
	if right := (*store.RightError)(nil); errors.As(err, &right) {
		return right.Err
	}
	return err
}

// aborted tells of an error that comes of an earlier one, which a function has swallowed.
func aborted(err error) bool {
	var server interface{ SQLState() string }
	return errors.As(err, &server) && server.SQLState() == "25P02"
}

// movedFault is ErrMoved for a guard that did not hold.
func movedFault(err error) error {
	if errors.Is(err, store.ErrLost) {
		return errMoved
	}
	return err
}
