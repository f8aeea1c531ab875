package checkpoint

import (
	"context"
	"crypto/rand"
	"slices"
	"strconv"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// Admissible takes out of what waits what may be put into its partition.
func (c *Checkpointer) Admissible() []broker.Delivery {
	held := map[string]bool{} // partitions of which something must wait: what comes after it waits, too
	var now, kept []broker.Delivery
	for i := range c.waiting {
		d := &c.waiting[i]
		l := c.Partitions[d.Partition]
		waits := l != nil && !l.Open || held[d.Partition] || c.undecided(*d)
		if waits && kept == nil { // as a rule nothing does, and nothing is copied
			now = slices.Clone(c.waiting[:i])
		}
		switch {
		case waits:
			held[d.Partition] = true
			kept = append(kept, *d)
		case kept != nil:
			now = append(now, *d)
		}
	}
	if kept == nil {
		now = c.waiting
	}
	c.waiting = kept
	return now
}

// parts has it stored of a partition that was lost that it was left in peace.
func (c *Checkpointer) parts(l *partition.Partition) {
	if l.Open && !l.Shared && len(l.Trying) == 0 {
		s := *l.Checkpoint
		s.Position, s.Session = l.At, ""
		c.left = append(c.left, s)
		c.at = time.Time{}
	}
}

// ours is what the sessions of all that have our name at the broker begin with.
func (c *Checkpointer) ours() string {
	if c.o.Member != "" {
		return c.o.Member + ":"
	}
	return ""
}

// forget forgets all that is known until the group is left. A session that has ended is not taken up again.
func (c *Checkpointer) forget(ended bool) {
	next := book{session: c.session, notes: c.notes, patient: c.patient, fetches: c.fetches + 1}
	if ended {
		next.session = c.ours() + rand.Text()
	}
	c.book = next
}

// Close forgets all: the group was left.
func (c *Checkpointer) Close() {
	c.forget(true)
	c.Partitions = map[string]*partition.Partition{}
}

// Rejoin forgets the partitions: the group is joined anew, because the database is not where it was. What
// others noted may be lost, too.
func (c *Checkpointer) Rejoin() {
	for _, l := range c.Partitions {
		l.Lost = true
	}
	c.Partitions = map[string]*partition.Partition{}
	c.types.since = time.Time{}
	c.forget(false)
}

// Leave says of all partitions that they were left in peace. Where the database does not hear it, their next
// owner is careful.
func (c *Checkpointer) Leave(ctx context.Context) error {
	for _, l := range c.byName() {
		c.parts(l)
	}
	if c.moved || len(c.left) == 0 && !c.types.acked {
		return nil
	}
	c.notes++
	ask := store.Attend{Consumer: c.o.Group, Server: c.server, Stamp: c.stamp(), Checkpoints: c.left}
	if c.types.acked { // a process that lives for less than a minute stores its progress here alone
		ask.Beat = &store.Beat{Own: c.o.Kinds(), Progress: true}
	}
	_, err := c.o.DB.Attend(ctx, ask)
	if err == nil {
		c.types.acked = false
	}
	return err
}

// stamp is the name of what is stored next.
func (c *Checkpointer) stamp() string { return c.session + "-" + strconv.Itoa(c.notes) }

// Gain takes up a partition that the broker gave us.
func (c *Checkpointer) Gain(g broker.Partition) {
	l := partition.New(g.Name)
	l.Origin, l.Since = g.Origin, c.o.Now()
	if g.Shared {
		l.Shared, l.Open, l.Session = true, true, c.session
	}
	if g.Started && g.Origin != "" {
		l.At = g.Start
	}
	c.Partitions[g.Name] = l
}

// Lose lets go of a partition that the broker took from us.
func (c *Checkpointer) Lose(name string) {
	if l := c.Partitions[name]; l != nil {
		l.Lost = true
		c.parts(l)
		delete(c.Partitions, name)
	}
}

// Of is the partition of that name, which is there as soon as something of it is.
func (c *Checkpointer) Of(name string) *partition.Partition {
	l := c.Partitions[name]
	if l == nil {
		l = partition.New(name)
		l.Since = c.o.Now()
		c.Partitions[name] = l
	}
	return l
}

// Fetched takes up what was received. It waits until Admissible says that it may be put into its partition.
func (c *Checkpointer) Fetched(ds []broker.Delivery) {
	for i := range ds {
		if l := c.Partitions[ds[i].Partition]; l != nil && l.At < 0 {
			l.At = ds[i].Position
		}
	}
	if len(ds) > 0 {
		c.fetches++
	}
	c.waiting = ds
}

// Waits tells whether something of what was received waits still.
func (c *Checkpointer) Waits() bool { return len(c.waiting) > 0 }

// Moved tells whether the database is not where it was, or was rewound.
func (c *Checkpointer) Moved() bool { return c.moved }

// Session is ours: who has messages and partitions in hand.
func (c *Checkpointer) Session() string { return c.session }

// Patient tells whether we wait a little for others that may still be leaving.
func (c *Checkpointer) Patient() bool { return c.patient }

// SetPatient says so.
func (c *Checkpointer) SetPatient(patient bool) { c.patient = patient }
