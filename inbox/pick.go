// This file selects the next job of a worker: one message, or several that share a transaction. It selects
// messages that may start in the order in which they came.

package inbox

import (
	"math"
	"time"

	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
)

// picker selects jobs. Only one goroutine uses it.
type picker[TTx any] struct {
	in     *Inbox[TTx]
	size   batchSize
	shares bool // the last job had several messages
}

// Next returns the next job of a worker: a message, or a batch of ready messages. A batch has at most a
// worker's share of the ready messages; no message waits for a batch to fill. A suspect starts only if no
// other message runs.
func (p *picker[TTx]) Next(running int) []*partition.Entry {
	job := p.next(running)
	if len(job) > 0 {
		p.shares = len(job) > 1
	}
	return job
}

func (p *picker[TTx]) next(running int) []*partition.Entry {
	if !p.Startable(running) {
		return nil
	}
	if suspect := p.in.parked.Suspect(); suspect != nil {
		p.in.breaker.Try(suspect)
		return []*partition.Entry{suspect}
	}
	rest, alone := p.in.breaker.Restrict(p.in.o.Now())
	if rest > 0 {
		return nil
	}
	e := p.firstReady()
	if again := p.retry(e != nil); again != nil {
		p.in.breaker.Try(again)
		return partition.Begin([]*partition.Entry{again})
	}
	if e == nil {
		return nil
	}
	share := p.in.schedule.Len()/p.in.o.Workers + 1 // chains
	p.in.schedule.Drop()
	most, claimed := p.size.now, e.Parked != nil
	if claimed { // their number is Claimed: only half of them may be ready
		most, share = min(most, p.in.parked.Size()), p.in.parked.Claimed()/p.in.o.Workers+1 // messages
	}
	if alone || most < 2 || p.in.exec.HasLegacyDedup() || !p.in.exec.CanShare(e) {
		p.in.breaker.Try(e)
		p.in.retries.Others(1)
		return partition.Begin([]*partition.Entry{e})
	}
	job := p.collect(e.Chain, nil, most)
	for n := 1; n < share && len(job) < most && (!claimed || len(job) < share); n++ {
		e = p.firstReady()
		if e == nil || !p.in.exec.CanShare(e) || claimed != (e.Parked != nil) ||
			claimed && len(job)+len(e.Chain.Queue) > most { // a job has all prefetched messages of a key
			break
		}
		p.in.schedule.Drop()
		job = p.collect(e.Chain, job, most)
	}
	p.in.retries.Others(len(job))
	return partition.Begin(job)
}

// collect adds the next messages of the chain to job.
func (p *picker[TTx]) collect(c *partition.Chain, job []*partition.Entry, most int) []*partition.Entry {
	for _, e := range c.Queue {
		if len(job) == most || !e.Done && (!p.in.exec.CanShare(e) || !c.Partition.Covers(e.Position)) {
			break
		}
		if !e.Done {
			job = append(job, e)
		}
	}
	return job
}

// Adapt makes batches larger or smaller after the results of a job.
func (p *picker[TTx]) Adapt(rs []exec.Result) {
	first, now := rs[0], p.in.o.Now()
	switch {
	case first.Entry.Retry: // it ran alone
	case first.Entry.Parked != nil:
		p.in.parked.Adapt(rs, p.in.o.Batch)
	case first.Collided > 0:
		p.size.collided(len(rs), first.Collided, now)
	case first.RolledBack:
		p.size.halve(len(rs))
	case len(rs) > 1 || p.in.exec.CanShare(first.Entry):
		took, well := time.Duration(0), true
		for _, r := range rs {
			took += r.Took
			well = well &&
				(r.What == decide.Handled || r.What == decide.Duplicate || r.What == decide.Rejected)
		}
		if well {
			p.size.succeeded(len(rs), took, now)
		}
	}
}

// firstReady returns the first message that may start and has not failed. The message stays in the schedule.
func (p *picker[TTx]) firstReady() *partition.Entry {
	return p.head(p.in.schedule.First, p.in.schedule.Drop)
}

// retry removes a message that has failed from the schedule and returns it, if a retry may start now. If
// othersReady is true, other messages are ready.
func (p *picker[TTx]) retry(othersReady bool) *partition.Entry {
	if p.in.schedule.Retries() == 0 || !p.in.retries.Allowed(othersReady, p.in.o.Now()) {
		return nil
	}
	e := p.head(p.in.schedule.FirstRetry, p.in.schedule.DropRetry)
	if e != nil {
		p.in.schedule.DropRetry()
		p.in.retries.Begin()
		e.Retry = true
	}
	return e
}

// head returns the first message of the chains that the function first returns, if the message may start. It
// drops lost and finished chains, and chains that wait for a checkpoint.
func (p *picker[TTx]) head(first func() *partition.Chain, drop func()) *partition.Entry {
	for c := first(); c != nil; c = first() {
		valid := !c.Partition.Lost && c.Pass()
		if valid && c.Partition.Covers(c.Queue[0].Position) {
			return c.Queue[0]
		}
		drop()
		if c.Busy = valid; valid {
			p.in.checkpoints.Wait(c)
		}
	}
	return nil
}

// Startable reports whether a message may start. A suspect starts only if no message runs. While a suspect
// runs, no message starts.
func (p *picker[TTx]) Startable(running int) bool {
	switch wait, suspectRuns := p.in.parked.Suspects(); {
	case p.in.orders.Pause(), suspectRuns:
		return false
	case wait:
		return running == 0
	}
	return p.in.schedule.Len() > 0 || p.in.schedule.Retries() > 0 && p.in.retries.Allowed(false, p.in.o.Now())
}

// Most returns how many jobs the workers may have: one per worker, or two per worker while each job is a
// single message. With two, a worker has its next message when it commits.
func (p *picker[TTx]) Most() int {
	if p.shares || !p.in.exec.Follows() {
		return p.in.o.Workers
	}
	return 2 * p.in.o.Workers
}

// retryPart limits retries that fail while other messages are ready. They get at most 1/retryPart of the
// workers' time and of the started messages.
const retryPart = 20

// retries limits the work on messages that have failed. After each success twice as many retries may run, up
// to all workers. After a failure only a few may run, and only after many other messages. Only one goroutine
// uses it.
type retries struct {
	workers int
	window  int       // retries that may run at a time
	running int       // retries that run now
	failing bool      // the last retry failed
	others  int       // other messages started since the last retry started
	until   time.Time // if the last retry failed and other messages are ready, no retry starts before
}

// newRetries returns the limits for this number of workers.
func newRetries(workers int) *retries {
	r := &retries{workers: workers}
	r.window = r.least()
	return r
}

func (r *retries) least() int { return max(1, r.workers/retryPart) }

// idle returns how many retries may run if no other message is ready. The remaining workers are free for new
// messages.
func (r *retries) idle() int { return max(r.window, r.workers/4) }

// Allowed reports whether one more retry may start now. If othersReady is true, other messages are ready.
func (r *retries) Allowed(othersReady bool, now time.Time) bool {
	if !othersReady {
		return r.running < r.idle()
	}
	return r.running < r.window && (!r.failing || r.others >= retryPart-1 && !now.Before(r.until))
}

// Most returns how many failed messages may be claimed. The number is unlimited while retries succeed.
// Otherwise it is enough for the retries that may start.
func (r *retries) Most() int {
	if !r.failing {
		return math.MaxInt
	}
	return 2 * r.idle()
}

// Begin records that a retry starts.
func (r *retries) Begin() { r.running, r.others = r.running+1, 0 }

// Others records that n other messages start.
func (r *retries) Others(n int) { r.others = min(r.others+n, retryPart) }

// End records that a retry ended, whether it succeeded, and how long it took.
func (r *retries) End(succeeded bool, took time.Duration, now time.Time) {
	r.running--
	if r.failing = !succeeded; succeeded {
		r.window = min(2*r.window, r.workers)
		return
	}
	r.window = r.least()
	r.until = now.Add(took * time.Duration(max(0, retryPart-r.workers)) / time.Duration(r.workers))
}
