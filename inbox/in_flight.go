package inbox

import (
	"slices"

	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// Nothing of a partition is begun before the database knows how far it may be: a process that dies leaves
// behind what it may have been at. That is noted in advance, for what is begun until the next time and no
// more: whatever lies below is suspected where it happens twice.

// waits puts c aside until its head may be begun.
func (in *Inbox[TTx]) waits(c *partition.Chain) {
	if l, behind := c.Partition, c.Queue[0].Position+1; l.Wanted == 0 || behind < l.Wanted {
		l.Wanted = behind
	}
	in.checkpointer.beyond = append(in.checkpointer.beyond, c)
}

// urgent tells whether nothing can be begun before more is noted.
func (in *Inbox[TTx]) urgent() bool {
	return in.schedule.Len() == 0 && slices.ContainsFunc(in.checkpointer.beyond, func(c *partition.Chain) bool { return !c.Partition.Lost && c.Partition.Open })
}

// next is what is to be stored of a partition. There is room for what may be begun until the next time; and
// for what waits, where all does: else what lies far ahead would have all before it suspected.
func (in *Inbox[TTx]) next(l *partition.Partition) store.Checkpoint {
	s, front := *l.Checkpoint, max(l.Front, l.At)
	if in.schedule.Len() == 0 || l.Begun == 0 {
		front = max(front, l.Wanted)
	}
	s.Position, s.Session = l.At, in.checkpointer.session
	s.InFlightEnd = max(s.InFlightEnd, front+int64(max(leastRoom, in.o.Batch, l.Begun+l.Begun/2)))
	return s
}

// noted takes up what waited, if it may be begun now.
func (in *Inbox[TTx]) noted() {
	for _, c := range in.checkpointer.beyond {
		c.Partition.Wanted = 0
		in.schedule.Add(c)
	}
	in.checkpointer.beyond = nil
}
