package partition

import (
	"container/heap"
	"slices"
	"time"
)

// A Schedule is the chains that somebody looks after: those whose heads may start, and those whose heads wait
// for a time. Its zero value has none.
type Schedule struct {
	ready   readiness
	retries readiness // the same, of heads that have failed
	waiting []*Chain  // whose head may not start before its due time
	alarm   time.Time // the earliest of these
	came    int64     // messages there were
}

// Number notes in which order e came.
func (s *Schedule) Number(e *Entry) {
	s.came++
	e.Nth = s.came
}

// Start makes the chains of es ready that nobody looks after yet.
func (s *Schedule) Start(es []*Entry) {
	for _, e := range es {
		if c := e.Chain; !c.Busy && c.Pass() {
			c.Busy = true
			s.Add(c)
		}
	}
}

// Add puts c, which has a head, among those that may start.
func (s *Schedule) Add(c *Chain) {
	if c.Queue[0].Troubled() {
		s.retries.add(c)
		return
	}
	s.ready.add(c)
}

// Retries are the chains that may start with a head that has failed. Len, First and Drop do not see them.
func (s *Schedule) Retries() int { return len(s.retries) }

// FirstRetry is First of Retries.
func (s *Schedule) FirstRetry() *Chain { return s.retries.first() }

// DropRetry is Drop of Retries.
func (s *Schedule) DropRetry() { s.retries.drop() }

// InPlace returns how many chains wait for a time, or have a head that has failed.
func (s *Schedule) InPlace() int { return len(s.waiting) + len(s.retries) }

// Len is how many may start.
func (s *Schedule) Len() int { return len(s.ready) }

// First is the chain whose head came first of those that may start, and stays where it is; nil: none may.
func (s *Schedule) First() *Chain { return s.ready.first() }

// Drop takes the first one out.
func (s *Schedule) Drop() { s.ready.drop() }

// Heads are the chains that may start, in no order.
func (s *Schedule) Heads() []*Chain { return slices.Concat(s.ready, s.retries) }

// Hold has c wait until it is due.
func (s *Schedule) Hold(c *Chain, due time.Time) {
	c.due, c.Busy = due, true
	if len(s.waiting) == 0 || due.Before(s.alarm) {
		s.alarm = due
	}
	s.waiting = append(s.waiting, c)
}

// Wake has those start that are due, and says when the next one will be; false: none waits.
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

// Clear forgets all of them.
func (s *Schedule) Clear() { *s = Schedule{came: s.came} }

// Begin notes that a job is given to a worker.
func Begin(job []*Entry) []*Entry {
	for _, e := range job {
		l := e.Chain.Partition
		l.Front = max(l.Front, e.Position+1)
		l.Begun++
	}
	return job
}

// readiness is the chains whose heads may start, the one first whose head came first. What came first is
// finished first, so that a partition's position goes on, and little lies between that and what was begun.
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

// add puts c, which has a head, among them.
func (r *readiness) add(c *Chain) {
	c.nth = c.Queue[0].Nth
	heap.Push(r, c)
}

// first is the one whose head came first; nil: there is none.
func (r readiness) first() *Chain {
	if len(r) == 0 {
		return nil
	}
	return r[0]
}

// drop takes the first one out.
func (r *readiness) drop() { heap.Pop(r) }
