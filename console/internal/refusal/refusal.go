// Package refusal has the errors of a console that are told to whoever asked.
package refusal

import "fmt"

// An Error is an error that is told to whoever asked.
type Error struct {
	Code int
	What string
}

func (r *Error) Error() string { return r.What }

// New is a refusal with an HTTP status; what and args are as of Printf.
func New(code int, what string, args ...any) error {
	return &Error{code, fmt.Sprintf(what, args...)}
}
