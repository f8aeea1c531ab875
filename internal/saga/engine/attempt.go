// This file calls a user's function once, and converts a panic to an error.

package engine

import (
	"github.com/skald-go/skald/failure"
)

// run calls a user's function. It returns an error if the function panics or ends its goroutine. The
// function gets its own goroutine, so that the saga's goroutine can still end the transaction. If inline is
// true, the function runs in the caller's goroutine, for tests.
func run(f func() error, inline bool) error {
	if inline {
		return safely(f)
	}
	return failure.Run(f)
}

func safely(f func() error) (err error) {
	defer failure.Recover(&err)
	return failure.Legible(f())
}
