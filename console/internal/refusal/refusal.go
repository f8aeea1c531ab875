// Package refusal has the errors of a console that are told to whoever asked.
package refusal

import "fmt"

// A Error is an error that is told to whoever asked.
type Error struct {
	Code int
	What string
}

func (r *Error) Error() string { return r.What }

func New(code int, what string, args ...any) error {
	return &Error{code, fmt.Sprintf(what, args...)}
}
