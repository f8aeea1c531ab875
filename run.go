package skald

import (
	"context"
	"errors"
	"sync"
)

// A Runner works until ctx is done, then takes no more, finishes what it began (bounded by its own Drain
// option), hands back its leases and returns nil. It returns an error only for what waiting cannot cure:
// a missing table, a missing right. An outage of a database or broker is waited for.
type Runner interface {
	Run(ctx context.Context) error
}

// A Stepper does one turn of the work of a Runner, by the same code, and never waits for more to arrive.
// Tests and explorers call it; busy tells whether anything was done.
type Stepper interface {
	Step(ctx context.Context) (busy bool, err error)
}

// Run runs all of rs until ctx is done or one of them fails; then it stops the others, waits for them and
// returns their errors, joined.
func Run(ctx context.Context, rs ...Runner) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(rs))
	var wg sync.WaitGroup
	for i, r := range rs {
		wg.Go(func() {
			if errs[i] = r.Run(ctx); errs[i] != nil {
				stop()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
