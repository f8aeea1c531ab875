package engine

import (
	"errors"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// lostError is errMoved for an action: at the commit, the saga no longer had the version that was read.
type lostError struct {
	a       plan.Action
	version int64
}

func (e *lostError) Error() string { return errMoved.Error() }
func (e *lostError) Unwrap() error { return errMoved }

// lost converts err of the commit of a, for a saga that was read with a version.
func lost(err error, a plan.Action, version int64) error {
	if errors.Is(err, store.ErrLost) {
		return &lostError{a, version}
	}
	return err
}

// alone counts consecutive commits of an action that failed although nothing else had written the saga.
type alone int

// Own returns a refusal if an action writes its own saga in its own transaction. That is so if two commits
// failed, and the saga still has the same version after err. Otherwise it returns nil.
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
