// This file runs a function of the user's once, and says what its error means for a saga.

package engine

import (
	"github.com/skald-go/skald/failure"
)

// run runs a function of the user's, and makes errors of its panic and of the end of its goroutine. That
// is one of its own, since that of the saga has a transaction to end; straight: it is the caller's, a test's.
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
