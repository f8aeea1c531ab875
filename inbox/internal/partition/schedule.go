package partition

import (
	"container/heap"
	"slices"
	"time"
)

// Schedule has the chains with heads that may start, or that wait for a time. The zero value is empty.
type Schedule struct {
	ready   readiness
	retries readiness // chains with heads that have failed
	waiting []*Chain  // chains with heads that are not due yet
	alarm   time.Time // the earliest due time of waiting
	came    int64     // number of messages so far
}

// Number numbers e in the order of arrival.
func (s *Schedule) Number(e *Entry) {
	s.came++
	e.Nth = s.came
}

// Start adds the chains of es that are not busy yet.
func (s *Schedule) Start(es []*Entry) {
	for _, e := range es {
		if c := e.Chain; !c.Busy && c.Pass() {
			c.Busy = true
			s.Add(c)
		}
	}
}

// Add makes c ready. C has a head.
func (s *Schedule) Add(c *Chain) {
	if c.Queue[0].Troubled() {
		s.retries.add(c)
		return
	}
	s.ready.add(c)
}

// Retries returns the number of ready chains with a head that has failed. Len, First and Drop ignore them.
func (s *Schedule) Retries() int { return len(s.retries) }

// FirstRetry is First for chains with a head that has failed.
func (s *Schedule) FirstRetry() *Chain { return s.retries.first() }

// DropRetry is Drop for chains with a head that has failed.
func (s *Schedule) DropRetry() { s.retries.drop() }

// InPlace returns how many chains wait for a time, or have a head that has failed.
func (s *Schedule) InPlace() int { return len(s.waiting) + len(s.retries) }

// Len returns the number of ready chains.
func (s *Schedule) Len() int { return len(s.ready) }

// First returns the ready chain with the earliest head, or nil. The chain stays in the schedule.
func (s *Schedule) First() *Chain { return s.ready.first() }

// Drop removes the first ready chain.
func (s *Schedule) Drop() { s.ready.drop() }

// Heads returns all ready chains, in no order.
func (s *Schedule) Heads() []*Chain { return slices.Concat(s.ready, s.retries) }

// Hold makes c wait until it is due.
func (s *Schedule) Hold(c *Chain, due time.Time) {
	c.due, c.Busy = due, true
	if len(s.waiting) == 0 || due.Before(s.alarm) {
		s.alarm = due
	}
	s.waiting = append(s.waiting, c)
}

// Wake makes the due chains ready. It returns the time until the next one is due, or false if none waits.
func (s *Schedule) Wake(now time.Time) (wait time.Duration, some bool) {
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

// Begin notes that a worker gets job, and returns it.
func Begin(job []*Entry) []*Entry {
	for _, e := range job {
		l := e.Chain.Partition
		l.Front = max(l.Front, e.Position+1)
		l.Begun++
	}
	return job
}

// readiness is a heap of ready chains, the one with the earliest head first. Messages that came first finish
// first, so the position of a partition advances, and few begun messages lie behind it.
type readiness []*Chain

func (r readiness) Len() int           { return len(r) }
func (r readiness) Less(i, j int) bool { return r[i].nth < r[j].nth }
func (r readiness) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *readiness) Push(c any)        { *r = append(*r, c.(*Chain)) }
func (r *readiness) Pop() any {
	last := len(*r) - 1
	c := (*r)[last]
	(*r)[last] = nil
	*r = (*r)[:last]
	return c
}

// add adds c, which has a head.
func (r *readiness) add(c *Chain) {
	c.nth = c.Queue[0].Nth
	heap.Push(r, c)
}

// first returns the chain with the earliest head, or nil.
func (r readiness) first() *Chain {
	if len(r) == 0 {
		return nil
	}
	return r[0]
}

// drop removes the first chain.
func (r *readiness) drop() { heap.Pop(r) }
