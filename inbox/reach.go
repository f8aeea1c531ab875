package inbox

import (
	"slices"

	"github.com/skald-go/skald/store"
)

// Nothing of a lane is begun before the database knows how far it may be: a process that dies leaves behind what it may have been at.
// That is noted in advance, for what is begun until the next time and no more: whatever lies below is suspected where it happens twice.

// covers tells whether a position may be begun.
func (l *lane) covers(position int64) bool {
	return l.origin == "" || l.spot != nil && position < l.spot.Reach
}

// waits notes that the head of c cannot be begun before that is noted.
func (in *Inbox[TTx]) waits(c *chain) {
	if l, behind := c.lane, c.queue[0].Position+1; l.wanted <= l.spot.Reach || behind < l.wanted {
		l.wanted = behind
	}
	in.book.beyond = append(in.book.beyond, c)
}

// urgent tells whether something waits that may not be begun before it is noted.
func (in *Inbox[TTx]) urgent() bool {
	return slices.ContainsFunc(in.book.beyond, func(c *chain) bool { return !c.lane.lost && c.lane.open })
}

// next is what is to be stored of a lane. There is room for what may come until the next time.
func (l *lane) next(life string, least int) store.Spot {
	s := *l.spot
	s.Position, s.Life = l.at, life
	s.Reach = max(s.Reach, max(l.front, l.wanted)+int64(max(least, 2*l.begun)))
	return s
}

// noted takes up what waited, if it may be begun now.
func (in *Inbox[TTx]) noted() {
	if len(in.book.beyond) > 0 {
		in.ready, in.book.beyond = append(in.book.beyond, in.ready...), nil
	}
}

// begin notes that a job is given to a worker.
func begin(job []*entry) []*entry {
	for _, e := range job {
		l := e.chain.lane
		l.front = max(l.front, e.Position+1)
		l.begun++
	}
	return job
}
