package exec

import (
	"context"
	"sync/atomic"

	"github.com/skald-go/skald/failure"
)

// A guard runs the user's functions of one worker, one after the other, in a goroutine that it keeps. A
// goroutine for each function would grow its stack each time. Its zero value has no goroutine yet.
type guard struct {
	busy  atomic.Bool
	calls chan func() error // nil: there is no goroutine
	ends  chan end
}

// An end is how a function ended: quit, if its goroutine did, too.
type end struct {
	err  error
	quit bool
}

// guarded is failure.Run in the goroutine of ctx's worker. A function that comes back here while it runs, or
// that has no worker, gets a goroutine of its own.
func guarded[TTx any](ctx context.Context, f func() error) error {
	d, _ := ctx.Value(workerKey{}).(*Worker[TTx])
	if d == nil || !d.guard.busy.CompareAndSwap(false, true) {
		return failure.Run(f)
	}
	defer d.guard.busy.Store(false)
	return d.guard.run(f)
}

func (g *guard) run(f func() error) error {
	if g.calls == nil {
		g.calls, g.ends = make(chan func() error), make(chan end)
		go serve(g.calls, g.ends)
	}
	g.calls <- f
	e := <-g.ends
	if e.quit {
		g.calls = nil
	}
	return e.err
}

// close ends the goroutine.
func (g *guard) close() {
	if g.calls != nil {
		close(g.calls)
	}
}

func serve(calls <-chan func() error, ends chan<- end) {
	quit := true
	defer func() {
		if quit {
			ends <- end{failure.ErrQuit, true}
		}
	}()
	for f := range calls {
		ends <- end{err: recovered(f)}
	}
	quit = false
}

func recovered(f func() error) (err error) {
	defer failure.Recover(&err)
	return f()
}
