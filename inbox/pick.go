// This file says what a worker is given next: of all that may start and is not held back, in the order in
// which it came; one message, or several that share a transaction.

package inbox

import (
	"slices"
	"time"

	"github.com/skald-go/skald/inbox/internal/checkpoint"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
)

// A pickConfig is what a Picker picks from, and by what.
type pickConfig struct {
	Workers int
	Batch   int // messages that share a transaction, at most
	Now     func() time.Time

	Schedule    *partition.Schedule
	Parked      *queue
	Breaker     *consumerBreaker
	Retries     *retries
	Checkpoints *checkpoint.Checkpointer

	Paused     func() bool // by an operator
	AsksBeside func() bool // then each is taken alone
	Follows    func() bool // a worker begins the next job with the end of its own
}

// A picker picks jobs. It belongs to one goroutine.
type picker struct {
	o    pickConfig
	size int // of a batch, at most
}

// newPick is a Picker.
func newPick(o pickConfig) *picker { return &picker{o: o, size: o.Batch} }

// Next is what a worker is given next: a message, or a batch of what is ready, as large as each worker's
// share of that is. Nothing waits for a batch to fill. What a process may have died of is taken while nothing
// else is in hand.
func (p *picker) Next(running int) []*partition.Entry {
	if !p.Startable(running) {
		return nil
	}
	if suspect := p.o.Parked.Suspect(); suspect != nil {
		p.o.Breaker.Try(suspect)
		return []*partition.Entry{suspect}
	}
	rest, alone := p.o.Breaker.Closed(p.o.Now())
	if rest > 0 {
		return nil
	}
	e := p.first()
	if again := p.retry(e != nil); again != nil {
		p.o.Breaker.Try(again)
		return partition.Begin([]*partition.Entry{again})
	}
	if e == nil {
		return nil
	}
	share := p.o.Schedule.Len()/p.o.Workers + 1 // chains
	p.o.Schedule.Drop()
	most, claimed := p.size, e.Parked != nil
	if claimed { // of these a part at most is ready: there are new ones only when half of them are finished
		most, share = min(most, p.o.Parked.Size()), p.o.Parked.Claimed()/p.o.Workers+1 // messages
	}
	if alone || most < 2 || p.o.AsksBeside() || !exec.Sociable(e) {
		p.o.Breaker.Try(e)
		p.o.Retries.Others(1)
		return partition.Begin([]*partition.Entry{e})
	}
	job := collect(e.Chain, nil, most)
	for n := 1; n < share && len(job) < most && (!claimed || len(job) < share); n++ {
		e = p.first()
		if e == nil || !exec.Sociable(e) || claimed != (e.Parked != nil) ||
			claimed && len(job)+len(e.Chain.Queue) > most { // no prefetched one is left behind
			break
		}
		p.o.Schedule.Drop()
		job = collect(e.Chain, job, most)
	}
	p.o.Retries.Others(len(job))
	return partition.Begin(job)
}

// collect adds to job what is next in the chain.
func collect(c *partition.Chain, job []*partition.Entry, most int) []*partition.Entry {
	for _, e := range c.Queue {
		if len(job) == most || !e.Done && (!exec.Sociable(e) || !c.Partition.Covers(e.Position)) {
			break
		}
		if !e.Done {
			job = append(job, e)
		}
	}
	return job
}

// Adapt makes batches smaller that came to grief by rivals, and larger again after one that went well.
func (p *picker) Adapt(rs []exec.Result) {
	switch {
	case rs[0].Entry.Retry: // it was taken alone
	case rs[0].Entry.Parked != nil:
		p.o.Parked.Adapt(rs, p.o.Batch)
	case len(rs) < 2:
	case slices.ContainsFunc(rs, func(r exec.Result) bool { return r.Fell }):
		p.size = max(2, p.size/2)
	default:
		p.size = min(p.o.Batch, p.size*2)
	}
}

// first is the head of the chain that may be taken next, of those that have not failed. It stays where it is.
func (p *picker) first() *partition.Entry { return p.head(p.o.Schedule.First, p.o.Schedule.Drop) }

// retry takes out a head that has failed, if one may begin now; others: first has one, too.
func (p *picker) retry(others bool) *partition.Entry {
	if p.o.Schedule.Retries() == 0 || !p.o.Retries.Allowed(others, p.o.Now()) {
		return nil
	}
	e := p.head(p.o.Schedule.FirstRetry, p.o.Schedule.DropRetry)
	if e != nil {
		p.o.Schedule.DropRetry()
		p.o.Retries.Begin()
		e.Retry = true
	}
	return e
}

func (p *picker) head(first func() *partition.Chain, drop func()) *partition.Entry {
	for c := first(); c != nil; c = first() {
		stands := !c.Partition.Lost && c.Pass()
		if stands && c.Partition.Covers(c.Queue[0].Position) {
			return c.Queue[0]
		}
		drop()
		if c.Busy = stands; stands {
			p.o.Checkpoints.Wait(c)
		}
	}
	return nil
}

// Startable tells whether anything may be begun: a suspect alone, and nothing beside it.
func (p *picker) Startable(running int) bool {
	switch wait, inHand := p.o.Parked.Suspects(); {
	case p.o.Paused(), inHand:
		return false
	case wait:
		return running == 0
	}
	return p.o.Schedule.Len() > 0 || p.o.Schedule.Retries() > 0 && p.o.Retries.Allowed(false, p.o.Now())
}

// Most is how many jobs may be in hand: one for each worker, and one more that it finds when it commits.
func (p *picker) Most() int {
	if p.o.Batch > 1 || !p.o.Follows() {
		return p.o.Workers
	}
	return 2 * p.o.Workers
}
