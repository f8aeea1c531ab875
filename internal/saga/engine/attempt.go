// This file runs a function of the user's once, and says what its error means for a saga.

package engine

import (
	"errors"
	"fmt"

	"github.com/skald-go/skald/failure"
)

// run runs a function of the user's, and makes errors of its panic and of the end of its goroutine. That
// is one of its own, since that of the saga has a transaction to end; straight: it is the caller's, a test's.
func run(f func() error, straight bool) error {
	if straight {
		return legible(safely(f))
	}
	return legible(failure.Run(f))
}

func safely(f func() error) (err error) {
	defer failure.Recover(&err)
	return f()
}

// legible is err, or another error in place of one that panics when it is asked: a nil pointer that was
// returned as an error is none that is nil.
func legible(err error) (out error) {
	if err == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			out = fmt.Errorf("its function returned a %T that cannot be asked for its text (is it a nil pointer? return nil itself): %v", err, v)
		}
	}()
	_, _ = err.Error(), errors.Is(err, failure.ErrQuit)
	return err
}
