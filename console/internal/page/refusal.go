// Errors that are shown to the user.

package page

import "fmt"

// refusalError is an error that is shown to the user.
type refusalError struct {
	Code int
	What string
}

func (r *refusalError) Error() string { return r.What }

// NewRefusal returns an error with an HTTP status; what and args are as in Printf.
func NewRefusal(code int, what string, args ...any) error {
	return &refusalError{code, fmt.Sprintf(what, args...)}
}
