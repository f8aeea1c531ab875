package exec

import (
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/partition"
)

// errNoReturn is the failure of a message whose function without a context does not return.
var errNoReturn = errors.New("inbox: a function without a context must only compute, and does not return")

// pure calls a user's function that gets no context, named what. If the function takes longer than a
// handler may, pure returns an error, and the goroutine of the function goes on: the caller must not use the
// variables that the function writes. At most 2 * Options.Workers goroutines go on; the next call waits for
// one of them.
func (x *Executor[TTx]) pure(e *partition.Entry, what string, f func() error) error {
	over := x.acts.begin(x.o.Handle, e) // lists a call that waits
	defer over()
	x.unreturned <- struct{}{}
	done := failure.Start(func() error {
		defer func() { <-x.unreturned }()
		return f()
	})
	timer := time.NewTimer(x.o.Handle)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("%w: %s (%v)", errNoReturn, what, x.o.Handle)
	}
}
