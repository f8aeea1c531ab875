package checkpoint

import (
	"slices"

	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// Nothing of a partition is begun before the database knows how far it may be: a process that dies leaves
// behind what it may have been at. That is noted in advance, for what is begun until the next time and no
// more: whatever lies below is suspected where it happens twice.

// Wait puts chain aside until its head may be begun.
func (c *Checkpointer) Wait(chain *partition.Chain) {
	if l, behind := chain.Partition, chain.Queue[0].Position+1; l.Wanted == 0 || behind < l.Wanted {
		l.Wanted = behind
	}
	c.beyond = append(c.beyond, chain)
}

// Urgent tells whether nothing can be begun before more is noted.
func (c *Checkpointer) Urgent() bool {
	return c.schedule.Len() == 0 && slices.ContainsFunc(c.beyond, func(chain *partition.Chain) bool {
		return !chain.Partition.Lost && chain.Partition.Open
	})
}

// next is what is to be stored of a partition. There is room for what may be begun until the next time; and
// for what waits, where all does: else what lies far ahead would have all before it suspected.
func (c *Checkpointer) next(l *partition.Partition) store.Checkpoint {
	s, front := *l.Checkpoint, max(l.Front, l.At)
	if c.schedule.Len() == 0 || l.Begun == 0 {
		front = max(front, l.Wanted)
	}
	s.Position, s.Session = l.At, c.session
	s.InFlightEnd = max(s.InFlightEnd, front+int64(max(leastRoom, c.o.Batch, l.Begun+l.Begun/2)))
	return s
}

// noted takes up what waited, if it may be begun now.
func (c *Checkpointer) noted() {
	for _, chain := range c.beyond {
		chain.Partition.Wanted = 0
		c.schedule.Add(chain)
	}
	c.beyond = nil
}
