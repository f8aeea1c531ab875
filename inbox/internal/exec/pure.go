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

// pure calls a user's function without a context, with the name what. If the function takes longer than a
// handler may, pure returns an error, and its goroutine continues. The caller must then not use the variables
// that the function writes. At most 2 * Options.Workers such goroutines continue: the next call waits for one
// of them.
func (x *Executor[TTx]) pure(e *partition.Entry, what string, f func() error) error {
	over := x.running.begin(x.o.Handle, e) // also lists calls that wait for a slot
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
