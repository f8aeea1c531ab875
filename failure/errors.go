package failure

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrTimeout is the error of a handler that took longer than Options.Timeouts.Handle of an inbox.
var ErrTimeout = errors.New("the handler took longer than Options.Timeouts.Handle")

// MalformedError reports that the codec cannot decode a payload.
type MalformedError struct{ Err error }

func (e *MalformedError) Error() string { return fmt.Sprintf("malformed: %v", e.Err) }
func (e *MalformedError) Unwrap() error { return e.Err }

// PanicError is a panic of a user's function, with its stack. Skald treats it as a failure, and the process
// continues.
type PanicError struct {
	Value any
	Stack []byte
}

// Error omits the stack, because the log and the dead letter have it separately.
func (p *PanicError) Error() string { return fmt.Sprintf("handler panicked: %v", p.Value) }

// Recover recovers a panic, and stores it in *err as a *PanicError. Call it directly in a defer statement:
// defer failure.Recover(&err).
func Recover(err *error) {
	if v := recover(); v != nil {
		*err = Legible(&PanicError{Value: v, Stack: debug.Stack()})
	}
}

// UnknownError reports that an external call got no answer, so that its outcome is unknown.
type UnknownError struct {
	Provider, Key string
	Err           error
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf(
		"no answer from %s to the call under key %s; the next attempt looks it up, or repeats it under this key: %v",
		e.Provider, e.Key, e.Err)
}
func (e *UnknownError) Unwrap() error { return e.Err }
