package exec

import (
	"context"
	"time"

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

// end commits a unit, and begins the next with it where the worker finds one and the store can.
func (x *Executor[TTx]) end(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	es ...store.Effect) error {
	if !unit.Found().Follows {
		return unit.Commit(ctx, es...)
	}
	x.follows.Store(true)
	d := x.workerOf(ctx, e)
	if d == nil || !d.follows(ctx) {
		return unit.Commit(ctx, es...)
	}
	var err error
	if d.intake, err = x.intake(ctx, d.next[0]); err != nil {
		return unit.Commit(ctx, es...) // it is said when it is that one's turn
	}
	d.unit, err = unit.CommitThen(ctx, d.intake, es...)
	return err
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

// NewWorker is a worker that takes the job after its own out of jobs where it begins that with the end of its
// own.
func (x *Executor[TTx]) NewWorker(jobs <-chan []*partition.Entry) *Worker[TTx] {
	return &Worker[TTx]{x: x, jobs: jobs}
}

// Close ends d.
func (d *Worker[TTx]) Close() { d.guard.close() }

// Under is ctx for the jobs of d.
func (d *Worker[TTx]) Under(ctx context.Context) context.Context {
	return context.WithValue(ctx, workerKey{}, d)
}

// Work does a job and answers a result for each message of it, and the job that is to be done next: it has
// been begun.
func (d *Worker[TTx]) Work(ctx context.Context,
	job []*partition.Entry) (rs []Result, next []*partition.Entry) {
	d.at, d.next = nil, nil
	if len(job) == 1 { // behind each of several there are others
		d.at = job[0]
	}
	rs = d.x.Work(ctx, job)
	return rs, d.next
}
