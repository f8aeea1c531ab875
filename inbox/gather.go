package inbox

import (
	"slices"

	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
)

// gather is what a worker is given next: a message, or a batch of what is ready, as large as each worker's
// share of that is. Nothing waits for a batch to fill. What a process may have died of is taken while nothing
// else is in hand.
func (in *Inbox[TTx]) gather(running int) []*partition.Entry {
	if !in.startable(running) {
		return nil
	}
	if suspect := in.parked.Suspect(); suspect != nil {
		in.breaker.Try(suspect)
		return []*partition.Entry{suspect}
	}
	rest, alone := in.breaker.Closed(in.o.Now())
	e := in.first()
	if rest > 0 || e == nil {
		return nil
	}
	share := in.schedule.Len()/in.o.Workers + 1 // chains
	in.schedule.Drop()
	most, claimed := in.size, e.Parked != nil
	if claimed { // of these a part at most is ready: there are new ones only when half of them are finished
		most, share = min(most, in.parked.Size()), in.parked.Claimed()/in.o.Workers+1 // messages
	}
	if alone || most < 2 || in.exec.AsksBeside() || !exec.Sociable(e) {
		in.breaker.Try(e)
		return partition.Begin([]*partition.Entry{e})
	}
	job := collect(e.Chain, nil, most)
	for n := 1; n < share && len(job) < most && (!claimed || len(job) < share); n++ {
		if e = in.first(); e == nil || !exec.Sociable(e) || claimed != (e.Parked != nil) || claimed && len(job)+len(e.Chain.Queue) > most {
			break // of those that ride none is left behind
		}
		in.schedule.Drop()
		job = collect(e.Chain, job, most)
	}
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

// adapt makes batches smaller that came to grief by rivals, and larger again behind one that went well.
func (in *Inbox[TTx]) adapt(rs []exec.Result) {
	switch {
	case rs[0].Entry.Parked != nil:
		in.parked.Adapt(rs, in.o.Batch)
	case len(rs) < 2:
	case slices.ContainsFunc(rs, func(r exec.Result) bool { return r.Fell }):
		in.size = max(2, in.size/2)
	default:
		in.size = min(in.o.Batch, in.size*2)
	}
}

// first is the head of the chain that may be taken next, and stays where it is.
func (in *Inbox[TTx]) first() *partition.Entry {
	for c := in.schedule.First(); c != nil; c = in.schedule.First() {
		stands := !c.Partition.Lost && c.Pass()
		if stands {
			now := in.o.Now()
			if wait := in.sources.Held(c, now); wait > 0 {
				in.schedule.Drop()
				in.schedule.Hold(c, now.Add(wait))
				continue
			}
		}
		if stands && c.Partition.Covers(c.Queue[0].Position) {
			return c.Queue[0]
		}
		in.schedule.Drop()
		if c.Busy = stands; stands {
			in.checkpoints.Wait(c)
		}
	}
	return nil
}

// startable tells whether anything may be begun: a suspect alone, and nothing beside it.
func (in *Inbox[TTx]) startable(running int) bool {
	switch wait, inHand := in.parked.Suspects(); {
	case in.steering.now.Paused != nil, inHand:
		return false
	case wait:
		return running == 0
	}
	return in.schedule.Len() > 0
}

// most is how many jobs may be in hand: one for each worker, and one more that it finds when it commits.
func (in *Inbox[TTx]) most() int {
	if in.o.Batch > 1 || !in.exec.Follows() {
		return in.o.Workers
	}
	return 2 * in.o.Workers
}
