package engine

import (
	"errors"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// A lostError is ErrMoved for what an action did: when it was to be committed, the saga was not as it was
// read.
type lostError struct {
	a       plan.Action
	version int64
}

func (e *lostError) Error() string { return errMoved.Error() }
func (e *lostError) Unwrap() error { return errMoved }

// lost is err of a commit of what a did to a saga that was read with a version.
func lost(err error, a plan.Action, version int64) error {
	if errors.Is(err, store.ErrLost) {
		return &lostError{a, version}
	}
	return err
}

// alone counts how often in a row what an action did could not be committed, though nobody else had written
// the saga.
type alone int

// Own is the refusal of what writes the saga in its own transaction: twice it could not be committed, and
// nobody else has written the saga, whose version was read again after err. Nil: it is not that.
func (n *alone) Own(err error, version int64) *refusal {
	var lost *lostError
	if !errors.As(err, &lost) || version != lost.version {
		*n = 0
		return nil
	}
	if *n++; *n < 2 {
		return nil
	}
	*n = 0
	return &refusal{Action: lost.a, Err: errOwn}
}
