package failure

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrTimeout is the failure of a handler that took longer than its limit, Options.Timeouts.Handle of an
// inbox.
var ErrTimeout = errors.New("the handler took longer than Options.Timeouts.Handle")

// A MalformedError is the failure of work whose payload the codec cannot read.
type MalformedError struct{ Err error }

func (e *MalformedError) Error() string { return fmt.Sprintf("malformed: %v", e.Err) }
func (e *MalformedError) Unwrap() error { return e.Err }

// A PanicError is the panic of a user's function: a failure with its stack, not a dead process.
type PanicError struct {
	Value any
	Stack []byte
}

// Error leaves the stack out: the log and the dead letter have a place of their own for it.
func (p *PanicError) Error() string { return fmt.Sprintf("handler panicked: %v", p.Value) }

// Recover turns a panic of the function that defers it into a *PanicError in *err. It must be deferred
// directly: defer failure.Recover(&err).
func Recover(err *error) {
	if v := recover(); v != nil {
		*err = &PanicError{Value: v, Stack: debug.Stack()}
	}
}

// An UnknownError is the failure of an outside call that gave no answer: nobody knows yet what was done.
type UnknownError struct {
	Provider, Key string
	Err           error
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf(
		"no answer from %s to the call under key %s; it is looked up, or made again under it: %v", e.Provider,
		e.Key, e.Err)
}
func (e *UnknownError) Unwrap() error { return e.Err }
