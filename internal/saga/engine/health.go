package engine

import (
	"sync"

	"github.com/skald-go/skald/internal/saga/plan"
)

// Health is how an engine stands. Counts are since it was made.
type Health struct {
	Live   bool // the database answers, and it claims
	InHand int  // sagas that it works on

	Done, Compensated int64 // sagas that ended here
	TakenOver         int64 // from processes that ended
	Refused           int64 // claims of sagas that this build cannot take on
	Alarms            int64 // that somebody has to look at
	Replies           map[plan.Outcome]int64
	Signals           map[plan.Outcome]int64
}

type counts struct {
	mu sync.Mutex
	Health
}

func (c *counts) add(n *int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
}

func (c *counts) live(is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Live = is
}

func (c *counts) ended(as plan.Status) {
	if as == plan.Done {
		c.add(&c.Done)
		return
	}
	c.add(&c.Compensated)
}

func (c *counts) reply(out plan.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Replies == nil {
		c.Replies = map[plan.Outcome]int64{}
	}
	c.Replies[out]++
}

func (c *counts) signal(out plan.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Signals == nil {
		c.Signals = map[plan.Outcome]int64{}
	}
	c.Signals[out]++
}

// Health tells how the engine stands.
func (e *Engine[TTx]) Health() Health {
	e.counts.mu.Lock()
	defer e.counts.mu.Unlock()
	h := e.counts.Health
	h.InHand = int(e.inHand.Load())
	h.Replies, h.Signals = cloned(h.Replies), cloned(h.Signals)
	return h
}

func cloned(m map[plan.Outcome]int64) map[plan.Outcome]int64 {
	out := make(map[plan.Outcome]int64, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}
