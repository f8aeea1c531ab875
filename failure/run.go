package failure

import (
	"errors"
	"runtime/debug"
)

// ErrQuit is the error of a user's function that ended its goroutine.
var ErrQuit = errors.New(
	"the function ended its goroutine (runtime.Goexit, as t.FailNow, t.Fatal and testify's require do): return an error instead")

// Run runs a user's function in a goroutine of its own and returns its error. It returns a *PanicError if the
// function panicked, and ErrQuit if it ended its goroutine. The caller's goroutine has transactions and
// messages to finish; a function that ended it would leave them open. A function that ignores its context
// blocks Run until it returns.
func Run(f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := ErrQuit // unless f returns
		defer func() {
			if v := recover(); v != nil {
				err = &PanicError{Value: v, Stack: debug.Stack()}
			}
			done <- err
		}()
		err = f()
	}()
	return <-done
}
