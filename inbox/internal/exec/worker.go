package exec

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// A Worker does one job after the other. It has the message that it is at and, behind that, the next one,
// whose transaction it begins in the round trip that commits the one before.
type Worker[TTx any] struct {
	x      *Executor[TTx]
	jobs   <-chan []*partition.Entry
	at     *partition.Entry
	next   []*partition.Entry // nobody else's any more
	intake store.Intake
	unit   store.Unit[TTx] // of next; nil: not begun
	guard  guard           // of the handlers
	early  func([]Result)  // gets results of a job that goes on
}

type workerKey struct{}

// workerOf is the worker that is at e; nil: none. A handler may come here with other messages: they have
// none.
func (x *Executor[TTx]) workerOf(ctx context.Context, e *partition.Entry) *Worker[TTx] {
	if d, _ := ctx.Value(workerKey{}).(*Worker[TTx]); d != nil && d.x == x && d.at == e {
		return d
	}
	return nil
}

// begun is what was begun for e with the commit of the message before it; nil: nothing.
func (x *Executor[TTx]) begun(ctx context.Context, e *partition.Entry) (store.Intake, store.Unit[TTx]) {
	d := x.workerOf(ctx, e)
	if d == nil {
		return store.Intake{}, nil
	}
	intake, unit := d.intake, d.unit
	d.intake, d.unit = store.Intake{}, nil
	return intake, unit
}

// next returns the worker that is at e, with the intake of its next message, if that message may be begun
// with the commit of e; nil: e is committed alone.
func (x *Executor[TTx]) next(ctx context.Context, e *partition.Entry, unit store.Unit[TTx]) *Worker[TTx] {
	if !unit.Found().Follows {
		return nil
	}
	x.follows.Store(true)
	d := x.workerOf(ctx, e)
	if d == nil || !d.follows(ctx) {
		return nil
	}
	var err error
	if d.intake, err = x.intake(ctx, d.next[0]); err != nil {
		return nil // the message fails when it is its turn
	}
	return d
}

// follows takes the next job, if there is one, and tells whether its transaction may be begun with the commit
// of this one: it is to be taken as any message, and there is time left to wait for its rivals.
func (d *Worker[TTx]) follows(ctx context.Context) bool {
	if until, ok := ctx.Deadline(); !ok || time.Until(until) < d.x.o.Wait+d.x.o.Handle/2 || ctx.Err() != nil {
		return false
	}
	if len(d.next) == 0 { // else a commit of this message has failed, and is tried again
		select {
		case d.next = <-d.jobs:
		default:
		}
	}
	if len(d.next) != 1 {
		return false
	}
	e := d.next[0]
	return e.Again == 0 && !e.Troubled() && e.Call == nil && !e.Suspect && !e.Alone && e.Unreadable() == nil
}

// NewWorker returns a worker that takes the job after its own out of jobs if it begins that job with the end
// of its own. It calls early with the other messages of a batch if a handler ignores its context.
func (x *Executor[TTx]) NewWorker(jobs <-chan []*partition.Entry, early func([]Result)) *Worker[TTx] {
	return &Worker[TTx]{x: x, jobs: jobs, early: early}
}

// Close ends d.
func (d *Worker[TTx]) Close() { d.guard.close() }

// Under is ctx for the jobs of d.
func (d *Worker[TTx]) Under(ctx context.Context) context.Context {
	return context.WithValue(ctx, workerKey{}, d)
}

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

// watched calls a user's function for e in the goroutine of ctx's worker, and lists it while it runs.
func (x *Executor[TTx]) watched(ctx context.Context, e *partition.Entry, f func() error) error {
	over := x.acts.begin(x.o.Handle, e)
	defer over()
	return guarded[TTx](ctx, f)
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
	return failure.Legible(f())
}
