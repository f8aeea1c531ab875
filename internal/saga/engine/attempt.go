// This file calls a user's function once, and converts its error for a saga.

package engine

import (
	"github.com/skald-go/skald/failure"
)

// run calls a user's function, and converts a panic or the end of its goroutine to an error. The function
// gets its own goroutine, because the saga's goroutine must end the transaction. If straight, it runs in
// the caller's goroutine, for tests.
func run(f func() error, straight bool) error {
	if straight {
		return safely(f)
	}
	return failure.Run(f)
}

func safely(f func() error) (err error) {
	defer failure.Recover(&err)
	return failure.Legible(f())
}
