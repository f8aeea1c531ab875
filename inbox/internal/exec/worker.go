// This file has the workers. Each has a goroutine for the user's functions, so that it can leave a function
// that does not return.

package exec

import (
	"context"
	"errors"
	"fmt"
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
	unit   store.Unit[TTx] // the transaction of next; nil if it has not begun
	guard  guard           // runs the user's functions
}

type workerKey struct{}

// workerOf returns the worker that handles e now, or nil. It is nil if a handler calls the Executor with
// another message.
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

// nextWorker returns the worker of e, with the intake of its next message. It returns nil if the commit of e
// must not begin another transaction.
func (x *Executor[TTx]) nextWorker(ctx context.Context, e *partition.Entry,
	unit store.Unit[TTx]) *Worker[TTx] {
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
		return nil // the attempt at that message reports the error
	}
	return d
}

// takeNext receives the next job, if there is one. It reports whether the commit of the current message may
// begin the transaction of that job. The job must be a single message without failures, and enough time must
// remain to wait for its locks.
func (d *Worker[TTx]) takeNext(ctx context.Context) bool {
	if until, ok := ctx.Deadline(); !ok || time.Until(until) < d.x.o.Wait+d.x.o.Handle/2 || ctx.Err() != nil {
		return false
	}
	if len(d.next) == 0 { // else a first commit of the current message failed
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

// NewWorker returns a worker. The commit of one job may begin the next one, which the worker receives from
// jobs.
func (x *Executor[TTx]) NewWorker(jobs <-chan []*partition.Entry) *Worker[TTx] {
	return &Worker[TTx]{x: x, jobs: jobs}
}

// Close ends the goroutine of d.
func (d *Worker[TTx]) Close() { d.guard.close() }

// Under returns a context that has d, for the jobs of d.
func (d *Worker[TTx]) Under(ctx context.Context) context.Context {
	return context.WithValue(ctx, workerKey{}, d)
}

// guard runs the user's functions of one worker, one after another, in one goroutine. A new goroutine per
// function would have to grow its stack each time. The zero value has no goroutine yet.
type guard struct {
	busy  atomic.Bool
	calls chan func() error // nil if there is no goroutine
	ends  chan end
}

// end is the result of a function. Quit reports that its goroutine ended, too.
type end struct {
	err  error
	quit bool
}

// hungError is the error of a function that ignores the end of its context. The function still runs, so this
// process starts none of its messages until it returns.
type hungError struct {
	es    []*partition.Entry
	most  time.Duration
	cause error // failure.ErrTimeout, or context.Canceled if the consumer is stopping
}

func (e *hungError) Error() string {
	return fmt.Sprintf("%v (%v): the function ignored its context and did not return; its transaction is rolled back",
		e.cause, e.most)
}

func (e *hungError) Unwrap() error { return e.cause }

// hungEntries returns the messages of the function that hangs, or nil if err has another cause.
func hungEntries(err error) []*partition.Entry {
	var h *hungError
	if errors.As(err, &h) {
		return h.es
	}
	return nil
}

// runLimited runs a user's function for es in the goroutine of ctx's worker, and lists it while it runs. If
// the function runs for longer than Config.Handle plus grace, runLimited returns a *hungError. The worker
// then leaves the function, and ignores its result.
func runLimited[TTx, T any](ctx context.Context, x *Executor[TTx], es []*partition.Entry,
	f func() (T, error)) (T, error) {
	var out, none T
	over := x.running.begin(x.o.Handle, es...)
	returned, err := runInWorker[TTx](ctx, x.o.Handle+grace, func() (err error) {
		defer over()
		out, err = f()
		return err
	})
	if !returned {
		cause := failure.ErrTimeout
		if stopped(ctx, nil) {
			cause = context.Canceled
		}
		return none, &hungError{es, x.o.Handle, cause}
	}
	return out, err
}

// runInWorker runs f like failure.Run, but in the goroutine of ctx's worker. It starts another goroutine if
// ctx has no worker, or if a function already runs in that goroutine. It returns false if f runs for longer
// than limit.
func runInWorker[TTx any](ctx context.Context, limit time.Duration,
	f func() error) (returned bool, err error) {
	late := time.NewTimer(limit)
	defer late.Stop()
	d, _ := ctx.Value(workerKey{}).(*Worker[TTx])
	if d != nil && d.guard.busy.CompareAndSwap(false, true) {
		defer d.guard.busy.Store(false)
		return d.guard.run(f, late.C)
	}
	select {
	case err := <-failure.Start(f):
		return true, err
	case <-late.C:
		return false, nil
	}
}

// run runs f. If the channel expired receives a value before f returns, run returns false. Then f keeps the
// goroutine, and the next function gets a new one.
func (g *guard) run(f func() error, expired <-chan time.Time) (returned bool, err error) {
	if g.calls == nil {
		g.calls, g.ends = make(chan func() error), make(chan end, 1)
		go serve(g.calls, g.ends)
	}
	g.calls <- f
	select {
	case e := <-g.ends:
		if e.quit {
			g.calls = nil
		}
		return true, e.err
	case <-expired:
		g.close()
		g.calls = nil
		return false, nil
	}
}

// close ends the goroutine after its current function.
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
