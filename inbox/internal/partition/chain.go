package partition

import "time"

// A Chain is the deliveries of one key in one partition: only its head may be in hand.
type Chain struct {
	Partition *Partition
	key       string // "" for a message without a key, which is a chain of its own
	Queue     []*Entry
	due       time.Time // the head's
	nth       int64     // of the head, while it is ready
	Busy      bool      // scheduled or in hand: somebody will look at the head
}

// Pass takes entries that are done from the head of the chain; false when nothing is left of it.
func (c *Chain) Pass() bool {
	for len(c.Queue) > 0 && c.Queue[0].Done {
		c.Queue[0] = nil
		c.Queue = c.Queue[1:]
	}
	if len(c.Queue) == 0 && c.key != "" {
		delete(c.Partition.chains, c.key)
	}
	return len(c.Queue) > 0
}
