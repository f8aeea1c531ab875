package inbox

import (
	"context"
	"time"

	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// A desk is what a worker has before it: the message that it is at and, behind that, the next one, whose
// transaction it begins in the round trip that commits the one before.
type worker[TTx any] struct {
	in     *Inbox[TTx]
	jobs   <-chan []*partition.Entry
	at     *partition.Entry
	next   []*partition.Entry // nobody else's any more
	intake store.Intake
	unit   store.Unit[TTx] // of next; nil: not begun
}

type workerKey struct{}

// workerOf is the desk at which e is taken; nil: none. A handler may come here with other messages: they have
// none.
func (in *Inbox[TTx]) workerOf(ctx context.Context, e *partition.Entry) *worker[TTx] {
	if d, _ := ctx.Value(workerKey{}).(*worker[TTx]); d != nil && d.in == in && d.at == e {
		return d
	}
	return nil
}

// work takes one job after the other: a goroutine for each would grow its stack anew each time.
func (l *loop[TTx]) work() {
	d := &worker[TTx]{in: l.in, jobs: l.jobs}
	ctx := context.WithValue(l.hard, workerKey{}, d)
	for job := range l.jobs {
		for len(job) > 0 {
			d.at, d.next = nil, nil
			if len(job) == 1 { // behind each of several there are others
				d.at = job[0]
			}
			l.results <- l.in.work(ctx, job)
			job = d.next
		}
	}
}

// begun is what was begun for e with the commit of the message before it; nil: nothing.
func (in *Inbox[TTx]) begun(ctx context.Context, e *partition.Entry) (store.Intake, store.Unit[TTx]) {
	d := in.workerOf(ctx, e)
	if d == nil {
		return store.Intake{}, nil
	}
	intake, unit := d.intake, d.unit
	d.intake, d.unit = store.Intake{}, nil
	return intake, unit
}

// end commits a unit, and begins the next with it where the worker finds one and the store can.
func (in *Inbox[TTx]) end(ctx context.Context, e *partition.Entry, unit store.Unit[TTx], es ...store.Effect) error {
	if !unit.Found().Follows {
		return unit.Commit(ctx, es...)
	}
	in.follows.Store(true)
	d := in.workerOf(ctx, e)
	if d == nil || !d.follows(ctx) {
		return unit.Commit(ctx, es...)
	}
	var err error
	if d.intake, err = in.intake(ctx, d.next[0]); err != nil {
		return unit.Commit(ctx, es...) // it is said when it is that one's turn
	}
	d.unit, err = unit.CommitThen(ctx, d.intake, es...)
	return err
}

// follows takes the next job, if there is one, and tells whether its transaction may be begun with the commit
// of this one: it is to be taken as any message, and there is time left to wait for its rivals.
func (d *worker[TTx]) follows(ctx context.Context) bool {
	if until, ok := ctx.Deadline(); !ok || time.Until(until) < d.in.o.Timeouts.Wait+d.in.o.Timeouts.Handle/2 || ctx.Err() != nil {
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
	return e.Again == 0 && e.Call == nil && !e.Suspect && !e.Alone && unreadable(e) == nil
}

// most is how many jobs may be in hand: one for each worker, and one more that it finds when it commits.
func (in *Inbox[TTx]) most() int {
	if in.o.Batch > 1 || !in.follows.Load() {
		return in.o.Workers
	}
	return 2 * in.o.Workers
}

// unhand takes back what no worker has begun.
func (l *loop[TTx]) unhand() {
	for {
		select {
		case job := <-l.jobs:
			l.running--
			for _, e := range job {
				delete(l.hands, e)
			}
		default:
			return
		}
	}
}
