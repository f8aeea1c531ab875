package failure

import (
	"errors"
	"runtime/debug"
)

// ErrQuit is the failure of a user's function that ended its goroutine.
var ErrQuit = errors.New(
	"the function ended its goroutine (runtime.Goexit, as t.FailNow, t.Fatal and testify's require do): return an error instead")

// Run runs a function of the user's in a goroutine of its own and returns its error, a *PanicError if it
// panicked, or ErrQuit if it ended its goroutine. The goroutine that calls Run has transactions to end and
// messages to answer: a function that ends it would leave them open. A function that ignores its context
// blocks Run for as long as it takes.
func Run(f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := ErrQuit // unless it returns
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
