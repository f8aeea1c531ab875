package partition

import "container/heap"

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
