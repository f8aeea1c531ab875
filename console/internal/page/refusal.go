package page

import "fmt"

// refusalError is an error with a text for the user. Render shows other errors only in the log.
type refusalError struct {
	Code int
	What string
}

func (r *refusalError) Error() string { return r.What }

// NewRefusal returns an error with an HTTP status and a text for the user. The text is made as by Printf.
func NewRefusal(code int, what string, args ...any) error {
	return &refusalError{code, fmt.Sprintf(what, args...)}
}
