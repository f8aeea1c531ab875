package inbox

import (
	"slices"

	"github.com/skald-go/skald/store"
)

// Nothing of a partition is begun before the database knows how far it may be: a process that dies leaves
// behind what it may have been at. That is noted in advance, for what is begun until the next time and no
// more: whatever lies below is suspected where it happens twice.

// covers tells whether a position may be begun.
func (l *partition) covers(position int64) bool {
	return l.origin == "" || l.checkpoint != nil && position < l.checkpoint.InFlightEnd
}

// waits puts c aside until its head may be begun.
func (in *Inbox[TTx]) waits(c *chain) {
	if l, behind := c.partition, c.queue[0].Position+1; l.wanted == 0 || behind < l.wanted {
		l.wanted = behind
	}
	in.checkpointer.beyond = append(in.checkpointer.beyond, c)
}

// urgent tells whether nothing can be begun before more is noted.
func (in *Inbox[TTx]) urgent() bool {
	return len(in.ready) == 0 && slices.ContainsFunc(in.checkpointer.beyond, func(c *chain) bool { return !c.partition.lost && c.partition.open })
}

// next is what is to be stored of a partition. There is room for what may be begun until the next time; and
// for what waits, where all does: else what lies far ahead would have all before it suspected.
func (in *Inbox[TTx]) next(l *partition) store.Checkpoint {
	s, front := *l.checkpoint, max(l.front, l.at)
	if len(in.ready) == 0 || l.begun == 0 {
		front = max(front, l.wanted)
	}
	s.Position, s.Session = l.at, in.checkpointer.session
	s.InFlightEnd = max(s.InFlightEnd, front+int64(max(leastRoom, in.o.Batch, l.begun+l.begun/2)))
	return s
}

// noted takes up what waited, if it may be begun now.
func (in *Inbox[TTx]) noted() {
	for _, c := range in.checkpointer.beyond {
		c.partition.wanted = 0
		in.ready.add(c)
	}
	in.checkpointer.beyond = nil
}

// begin notes that a job is given to a worker.
func begin(job []*entry) []*entry {
	for _, e := range job {
		l := e.chain.partition
		l.front = max(l.front, e.Position+1)
		l.begun++
	}
	return job
}
