package console

import "fmt"

// A refusal is an error that is told to whoever asked.
type refusal struct {
	code int
	what string
}

func (r *refusal) Error() string { return r.what }

func refuse(code int, what string, args ...any) error {
	return &refusal{code, fmt.Sprintf(what, args...)}
}
