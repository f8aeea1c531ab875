package engine

import (
	"errors"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// lostError is errMoved with the action whose commit failed: the saga no longer had the version that was
// read.
type lostError struct {
	a       plan.Action
	version int64
}

func (e *lostError) Error() string { return errMoved.Error() }
func (e *lostError) Unwrap() error { return errMoved }

// lost converts store.ErrLost from the commit of the action a. The argument version is the version with
// which the saga was read.
func lost(err error, a plan.Action, version int64) error {
	if errors.Is(err, store.ErrLost) {
		return &lostError{a, version}
	}
	return err
}

// alone counts consecutive commits of an action that failed with a changed version, although the saga still
// has the old version afterwards.
type alone int

// Own returns a refusal if the action writes its own saga in its own transaction, or else nil. The argument
// version is the saga's version after err. If two such commits fail and the version is still the old one,
// no other writer has caused that.
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
