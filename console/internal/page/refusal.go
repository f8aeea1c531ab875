// This file has the errors of a console that are told to whoever asked.

package page

import "fmt"

// An refusalError is an error that is told to whoever asked.
type refusalError struct {
	Code int
	What string
}

func (r *refusalError) Error() string { return r.What }

// NewRefusal is a refusal with an HTTP status; what and args are as of Printf.
func NewRefusal(code int, what string, args ...any) error {
	return &refusalError{code, fmt.Sprintf(what, args...)}
}
