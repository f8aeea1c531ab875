package failure

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/skald-go/skald"
)

// ErrQuit is the error of a user's function that ended its goroutine.
var ErrQuit = errors.New(
	"the function ended its goroutine (runtime.Goexit, as t.FailNow, t.Fatal and testify's require do): return an error instead")

// Run runs a user's function in a goroutine of its own and returns its error as Legible has it. It returns a
// *PanicError if the function panicked, and ErrQuit if it ended its goroutine. The caller's goroutine has
// transactions and messages to finish; a function that ended it would leave them open. A function that
// ignores its context blocks Run until it returns.
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
		err = Legible(f())
	}()
	return <-done
}

// Legible returns err, or another error in its place if err cannot be used: its text, or an error that it
// wraps, panics (a nil pointer returned as an error does), or it is a rejection without a reason. A rejection
// without a reason is an ordinary failure.
func Legible(err error) (out error) {
	if err == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			out = fmt.Errorf("its function returned a %T that cannot be asked for its text (is it a nil pointer? return nil itself): %v", err, v)
		}
	}()
	_ = err.Error()
	if no := (*skald.RejectedError)(nil); errors.As(err, &no) {
		if no.Err == nil {
			return fmt.Errorf("%w (%v)", skald.ErrNoReason, err)
		}
		_ = no.Err.Error()
	}
	return err
}
