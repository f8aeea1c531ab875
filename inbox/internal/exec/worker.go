package exec

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// Worker handles one job after another. It can begin the transaction of its next message in the round trip
// that commits the current one.
type Worker[TTx any] struct {
	x      *Executor[TTx]
	jobs   <-chan []*partition.Entry
	at     *partition.Entry
	next   []*partition.Entry // the next job, already received from jobs
	intake store.Intake
	unit   store.Unit[TTx] // the transaction of next; nil: not begun
	guard  guard           // runs the user's functions
	early  func([]Result)  // receives results before the job ends
}

type workerKey struct{}

// workerOf returns the worker whose current message is e, or nil. A handler can call the Executor with other
// messages, which have no worker.
func (x *Executor[TTx]) workerOf(ctx context.Context, e *partition.Entry) *Worker[TTx] {
	if d, _ := ctx.Value(workerKey{}).(*Worker[TTx]); d != nil && d.x == x && d.at == e {
		return d
	}
	return nil
}

// takeBegun returns the transaction that the commit of the previous message began for e. The unit is nil if
// there is none.
func (x *Executor[TTx]) takeBegun(ctx context.Context, e *partition.Entry) (store.Intake, store.Unit[TTx]) {
	d := x.workerOf(ctx, e)
	if d == nil {
		return store.Intake{}, nil
	}
	intake, unit := d.intake, d.unit
	d.intake, d.unit = store.Intake{}, nil
	return intake, unit
}

// next returns the worker of e, with the intake of its next message. It returns nil if e must be committed
// alone.
func (x *Executor[TTx]) next(ctx context.Context, e *partition.Entry, unit store.Unit[TTx]) *Worker[TTx] {
	if !unit.Found().Follows {
		return nil
	}
	x.follows.Store(true)
	d := x.workerOf(ctx, e)
	if d == nil || !d.takeNext(ctx) {
		return nil
	}
	var err error
	if d.intake, err = x.intake(ctx, d.next[0]); err != nil {
		return nil // its own attempt reports the error
	}
	return d
}

// takeNext receives the next job, if there is one. It reports whether the commit of the current message may
// begin its transaction. The next message must be alone and without trouble, and time must remain to wait for
// its locks.
func (d *Worker[TTx]) takeNext(ctx context.Context) bool {
	if until, ok := ctx.Deadline(); !ok || time.Until(until) < d.x.o.Wait+d.x.o.Handle/2 || ctx.Err() != nil {
		return false
	}
	if len(d.next) == 0 { // else a commit of the current message failed and is retried
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

// NewWorker returns a worker that receives from jobs each job that it begins with the commit of the previous
// one. It calls early with the results of the other messages of a batch if a handler ignores its context.
func (x *Executor[TTx]) NewWorker(jobs <-chan []*partition.Entry, early func([]Result)) *Worker[TTx] {
	return &Worker[TTx]{x: x, jobs: jobs, early: early}
}

// Close ends the goroutine of d.
func (d *Worker[TTx]) Close() { d.guard.close() }

// Under returns a context for the jobs of d.
func (d *Worker[TTx]) Under(ctx context.Context) context.Context {
	return context.WithValue(ctx, workerKey{}, d)
}

// guard runs the user's functions of one worker, one after another, in one goroutine. A new goroutine per
// function would grow its stack each time. The zero value has no goroutine yet.
type guard struct {
	busy  atomic.Bool
	calls chan func() error // nil: no goroutine
	ends  chan end
}

// end is the end of a function. quit reports that its goroutine ended, too.
type end struct {
	err  error
	quit bool
}

// guarded runs f like failure.Run, but in the goroutine of ctx's worker. It starts a goroutine if there is no
// worker, or if a function runs in that goroutine already.
func guarded[TTx any](ctx context.Context, f func() error) error {
	d, _ := ctx.Value(workerKey{}).(*Worker[TTx])
	if d == nil || !d.guard.busy.CompareAndSwap(false, true) {
		return failure.Run(f)
	}
	defer d.guard.busy.Store(false)
	return d.guard.run(f)
}

// tracked runs a user's function for e in the goroutine of ctx's worker, and lists it while it runs.
func (x *Executor[TTx]) tracked(ctx context.Context, e *partition.Entry, f func() error) error {
	over := x.running.begin(x.o.Handle, e)
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
		ends <- end{err: runRecovered(f)}
	}
	quit = false
}

func runRecovered(f func() error) (err error) {
	defer failure.Recover(&err)
	return failure.Legible(f())
}
