// This file selects the chain that starts next.

package partition

import (
	"container/heap"
	"slices"
	"time"
)

// Schedule has the chains with a head that may start, or that waits for a time. The zero value is empty.
type Schedule struct {
	ready   readyHeap
	retries readyHeap // ready chains with a head that is Troubled
	waiting []*Chain  // chains with a head that is not due yet
	alarm   time.Time // the earliest due time of waiting
	came    int64     // number of messages that came so far
}

// Number numbers e in the order of arrival.
func (s *Schedule) Number(e *Entry) {
	s.came++
	e.Nth = s.came
}

// Start adds the chains of es that are not busy.
func (s *Schedule) Start(es []*Entry) {
	for _, e := range es {
		if c := e.Chain; !c.Busy && c.Pass() {
			c.Busy = true
			s.Add(c)
		}
	}
}

// Add makes c ready. The caller ensures that c is not empty.
func (s *Schedule) Add(c *Chain) {
	if c.Queue[0].Troubled() {
		s.retries.add(c)
		return
	}
	s.ready.add(c)
}

// Retries returns the number of ready chains with a Troubled head. Len, First and Drop ignore these chains.
func (s *Schedule) Retries() int { return len(s.retries) }

// FirstRetry returns the first of the ready chains with a Troubled head, or nil.
func (s *Schedule) FirstRetry() *Chain { return s.retries.earliest() }

// DropRetry removes the chain that FirstRetry returns.
func (s *Schedule) DropRetry() { s.retries.drop() }

// InPlace returns how many chains wait for a time, or have a Troubled head.
func (s *Schedule) InPlace() int { return len(s.waiting) + len(s.retries) }

// Len returns the number of ready chains.
func (s *Schedule) Len() int { return len(s.ready) }

// First returns the ready chain with the earliest head, or nil. The chain stays in the schedule.
func (s *Schedule) First() *Chain { return s.ready.earliest() }

// Drop removes the chain that First returns.
func (s *Schedule) Drop() { s.ready.drop() }

// Heads returns all ready chains, in no order.
func (s *Schedule) Heads() []*Chain { return slices.Concat(s.ready, s.retries) }

// Hold makes the chain c wait until the time due.
func (s *Schedule) Hold(c *Chain, due time.Time) {
	c.due, c.Busy = due, true
	if len(s.waiting) == 0 || due.Before(s.alarm) {
		s.alarm = due
	}
	s.waiting = append(s.waiting, c)
}

// Wake makes the due chains ready. It returns the time until the next chain is due. It returns waiting false
// if no chain waits.
func (s *Schedule) Wake(now time.Time) (wait time.Duration, waiting bool) {
	if len(s.waiting) == 0 || now.Before(s.alarm) {
		return s.alarm.Sub(now), len(s.waiting) > 0
	}
	kept := s.waiting[:0]
	for _, c := range s.waiting {
		switch {
		case c.Partition.Lost:
		case !now.Before(c.due):
			s.Add(c)
		default:
			if len(kept) == 0 || c.due.Before(s.alarm) {
				s.alarm = c.due
			}
			kept = append(kept, c)
		}
	}
	clear(s.waiting[len(kept):])
	s.waiting = kept
	return s.alarm.Sub(now), len(kept) > 0
}

// Clear removes all chains.
func (s *Schedule) Clear() { *s = Schedule{came: s.came} }

// Begin records that a worker receives job, and returns job.
func Begin(job []*Entry) []*Entry {
	for _, e := range job {
		l := e.Chain.Partition
		l.Front = max(l.Front, e.Position+1)
		l.Begun++
	}
	return job
}

// readyHeap is a heap of ready chains. The chain with the earliest head is first. So the messages that came
// first finish first, the position of a partition advances, and few started messages are after it.
type readyHeap []*Chain

func (r readyHeap) Len() int           { return len(r) }
func (r readyHeap) Less(i, j int) bool { return r[i].nth < r[j].nth }
func (r readyHeap) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *readyHeap) Push(c any)        { *r = append(*r, c.(*Chain)) }
func (r *readyHeap) Pop() any {
	last := len(*r) - 1
	c := (*r)[last]
	(*r)[last] = nil
	*r = (*r)[:last]
	return c
}

// add adds c, which has a head.
func (r *readyHeap) add(c *Chain) {
	c.nth = c.Queue[0].Nth
	heap.Push(r, c)
}

// earliest returns the chain with the earliest head, or nil.
func (r readyHeap) earliest() *Chain {
	if len(r) == 0 {
		return nil
	}
	return r[0]
}

// drop removes the first chain.
func (r *readyHeap) drop() { heap.Pop(r) }
