// Package attempt runs a function of the user's once, and says what its error means for a saga.
package attempt

import (
	"errors"
	"fmt"

	"github.com/skald-go/skald/failure"
)

var errQuit = errors.New(
	"its function ended its goroutine (runtime.Goexit, as t.FailNow and t.Fatal do): return an error instead")

// Run runs a function of the user's, and makes errors of its panic and of the end of its goroutine. That
// is one of its own, since that of the saga has a transaction to end; straight: it is the caller's, a test's.
func Run(f func() error, straight bool) error {
	done := make(chan error, 1)
	run := func() {
		err := errQuit // unless it returns
		defer func() { done <- err }()
		defer failure.Recover(&err)
		err = f()
	}
	if straight {
		run()
	} else {
		go run()
	}
	return Legible(<-done)
}

// Legible is err, or another error in place of one that panics when it is asked: a nil pointer that was
// returned as an error is none that is nil.
func Legible(err error) (out error) {
	if err == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			out = fmt.Errorf("its function returned a %T that cannot be asked for its text (is it a nil pointer? return nil itself): %v", err, v)
		}
	}()
	_, _ = err.Error(), errors.Is(err, errQuit)
	return err
}
