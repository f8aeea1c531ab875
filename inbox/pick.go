// This file says what a worker is given next: of all that may start and is not held back, in the order in
// which it came; one message, or several that share a transaction.

package inbox

import (
	"math"
	"time"

	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
)

// A picker picks jobs. It belongs to one goroutine.
type picker[TTx any] struct {
	in     *Inbox[TTx]
	size   batchSize
	shares bool // the last job was of several messages
}

// Next is what a worker is given next: a message, or a batch of what is ready, as large as each worker's
// share of that is. Nothing waits for a batch to fill. What a process may have died of is taken while nothing
// else is in hand.
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
	rest, alone := p.in.breaker.Closed(p.in.o.Now())
	if rest > 0 {
		return nil
	}
	e := p.first()
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
	if claimed { // of these a part at most is ready: there are new ones only when half of them are finished
		most, share = min(most, p.in.parked.Size()), p.in.parked.Claimed()/p.in.o.Workers+1 // messages
	}
	if alone || most < 2 || p.in.exec.AsksBeside() || !p.in.exec.Sociable(e) {
		p.in.breaker.Try(e)
		p.in.retries.Others(1)
		return partition.Begin([]*partition.Entry{e})
	}
	job := p.collect(e.Chain, nil, most)
	for n := 1; n < share && len(job) < most && (!claimed || len(job) < share); n++ {
		e = p.first()
		if e == nil || !p.in.exec.Sociable(e) || claimed != (e.Parked != nil) ||
			claimed && len(job)+len(e.Chain.Queue) > most { // no prefetched one is left behind
			break
		}
		p.in.schedule.Drop()
		job = p.collect(e.Chain, job, most)
	}
	p.in.retries.Others(len(job))
	return partition.Begin(job)
}

// collect adds to job what is next in the chain.
func (p *picker[TTx]) collect(c *partition.Chain, job []*partition.Entry, most int) []*partition.Entry {
	for _, e := range c.Queue {
		if len(job) == most || !e.Done && (!p.in.exec.Sociable(e) || !c.Partition.Covers(e.Position)) {
			break
		}
		if !e.Done {
			job = append(job, e)
		}
	}
	return job
}

// Adapt makes batches larger or smaller after a job.
func (p *picker[TTx]) Adapt(rs []exec.Result) {
	first, now := rs[0], p.in.o.Now()
	switch {
	case first.Entry.Retry: // it was taken alone
	case first.Entry.Parked != nil:
		p.in.parked.Adapt(rs, p.in.o.Batch)
	case first.Collided > 0:
		p.size.collided(len(rs), first.Collided, now)
	case first.Fell:
		p.size.failed(len(rs))
	case len(rs) > 1 || p.in.exec.Sociable(first.Entry):
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

// first is the head of the chain that may be taken next, of those that have not failed. It stays where it is.
func (p *picker[TTx]) first() *partition.Entry {
	return p.head(p.in.schedule.First, p.in.schedule.Drop)
}

// retry takes out a head that has failed, if one may begin now; others: first has one, too.
func (p *picker[TTx]) retry(others bool) *partition.Entry {
	if p.in.schedule.Retries() == 0 || !p.in.retries.Allowed(others, p.in.o.Now()) {
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

func (p *picker[TTx]) head(first func() *partition.Chain, drop func()) *partition.Entry {
	for c := first(); c != nil; c = first() {
		stands := !c.Partition.Lost && c.Pass()
		if stands && c.Partition.Covers(c.Queue[0].Position) {
			return c.Queue[0]
		}
		drop()
		if c.Busy = stands; stands {
			p.in.checkpoints.Wait(c)
		}
	}
	return nil
}

// Startable tells whether anything may be begun: a suspect alone, and nothing beside it.
func (p *picker[TTx]) Startable(running int) bool {
	switch wait, inHand := p.in.parked.Suspects(); {
	case p.in.orders.Pause(), inHand:
		return false
	case wait:
		return running == 0
	}
	return p.in.schedule.Len() > 0 || p.in.schedule.Retries() > 0 && p.in.retries.Allowed(false, p.in.o.Now())
}

// Most is how many jobs may be in hand: one for each worker, and while jobs are single messages one more that
// it finds when it commits.
func (p *picker[TTx]) Most() int {
	if p.shares || !p.in.exec.Follows() {
		return p.in.o.Workers
	}
	return 2 * p.in.o.Workers
}

// retryPart is which part of the workers' time, and of the messages begun, goes to retries that fail while
// others are ready: 1/retryPart.
const retryPart = 20

// retries bounds what a consumer spends on messages that have failed. Where they succeed again, as after an
// outage of a service, twice as many may run after each, up to all workers. Where they fail, few run, and
// only between many others. It belongs to one goroutine.
type retries struct {
	workers int
	window  int  // that may run at a time
	running int  // of them
	stuck   int  // of those, in handlers that ignore that their context ended
	failing bool // the last one that ended
	others  int  // messages begun since the last one that began
	until   time.Time
}

// newRetries returns Retries for so many workers.
func newRetries(workers int) *retries {
	r := &retries{workers: workers}
	r.window = r.least()
	return r
}

func (r *retries) least() int { return max(1, r.workers/retryPart) }

// idle is how many may run where nothing else is ready: what comes then still finds workers.
func (r *retries) idle() int { return max(r.window, r.workers/4) }

// Allowed reports whether one more may begin now. Others: other messages are ready.
func (r *retries) Allowed(others bool, now time.Time) bool {
	running := r.running - r.stuck
	if !others {
		return running < r.idle()
	}
	return running < r.window && (!r.failing || r.others >= retryPart-1 && !now.Before(r.until))
}

// Most returns how many may be claimed, so that one that is allowed is there: any number while they succeed.
func (r *retries) Most() int {
	if !r.failing {
		return math.MaxInt
	}
	return 2 * r.idle()
}

// Begin notes that one begins.
func (r *retries) Begin() { r.running, r.others = r.running+1, 0 }

// Others notes that n other messages begin.
func (r *retries) Others(n int) { r.others = min(r.others+n, retryPart) }

// End notes that one ended, after so long.
func (r *retries) End(well bool, took time.Duration, now time.Time) {
	r.running--
	if r.failing = !well; well {
		r.window = min(2*r.window, r.workers)
		return
	}
	r.window = r.least()
	r.until = now.Add(took * time.Duration(max(0, retryPart-r.workers)) / time.Duration(r.workers))
}
