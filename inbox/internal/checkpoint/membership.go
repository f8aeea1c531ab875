// This file gains, loses and leaves partitions, and keeps deliveries until their partitions are open.

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

// Admissible removes and returns the waiting deliveries that may now be put into their partitions.
func (c *Checkpointer) Admissible() []broker.Delivery {
	held := map[string]bool{} // partitions with a delivery that must wait: later ones wait, too
	var now, kept []broker.Delivery
	for i := range c.waiting {
		d := &c.waiting[i]
		l := c.Partitions[d.Partition]
		waits := l != nil && !l.Open || held[d.Partition] || c.undecided(*d)
		if waits && kept == nil { // usually none waits, and then nothing is copied
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

// release schedules a checkpoint of a lost partition. It records that this process left the partition
// cleanly.
func (c *Checkpointer) release(l *partition.Partition) {
	if l.Open && !l.Shared && len(l.Trying) == 0 {
		s := *l.Checkpoint
		s.Position, s.Session = l.At, ""
		c.left = append(c.left, s)
		c.at = time.Time{}
	}
}

// sessionPrefix returns the prefix of the sessions of all processes with this member name.
func (c *Checkpointer) sessionPrefix() string {
	if c.o.Member != "" {
		return c.o.Member + ":"
	}
	return ""
}

// forget clears the state of the group. If ended is true, forget also begins a new session.
func (c *Checkpointer) forget(ended bool) {
	next := groupState{session: c.session, stamps: c.stamps, patient: c.patient, fetches: c.fetches + 1}
	if ended {
		next.session = c.sessionPrefix() + rand.Text()
	}
	c.groupState = next
}

// Close drops all partitions, after the consumer left the group.
func (c *Checkpointer) Close() {
	c.forget(true)
	c.Partitions = map[string]*partition.Partition{}
}

// Rejoin drops the partitions before the consumer joins the group again. If the database was restored, it may
// have lost the types of other builds, too.
func (c *Checkpointer) Rejoin() {
	for _, l := range c.Partitions {
		l.Lost = true
	}
	c.Partitions = map[string]*partition.Partition{}
	c.types.since = time.Time{}
	c.forget(false)
}

// Leave stores that this process left all partitions cleanly. If that fails, their next owner treats messages
// in progress as suspects.
func (c *Checkpointer) Leave(ctx context.Context) error {
	for _, l := range c.byName() {
		c.release(l)
	}
	if c.moved || len(c.left) == 0 && !c.types.acked {
		return nil
	}
	c.stamps++
	ask := store.SyncRequest{Consumer: c.o.Group, Server: c.server, Stamp: c.stamp(), Checkpoints: c.left}
	if c.types.acked { // a process that runs for less than a minute stores its progress only here
		ask.Heartbeat = &store.Heartbeat{Own: c.o.Kinds(), Progress: true}
	}
	_, err := c.o.DB.SyncConsumer(ctx, ask)
	if err == nil {
		c.types.acked = false
	}
	return err
}

// stamp returns the stamp of the next checkpoint.
func (c *Checkpointer) stamp() string { return c.session + "-" + strconv.Itoa(c.stamps) }

// Gain adds a partition that the broker has assigned to this process.
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

// Lose removes a partition that the broker has assigned to another process.
func (c *Checkpointer) Lose(name string) {
	if l := c.Partitions[name]; l != nil {
		l.Lost = true
		c.release(l)
		delete(c.Partitions, name)
	}
}

// Of returns the partition with this name. If there is no such partition, Of adds it.
func (c *Checkpointer) Of(name string) *partition.Partition {
	l := c.Partitions[name]
	if l == nil {
		l = partition.New(name)
		l.Since = c.o.Now()
		c.Partitions[name] = l
	}
	return l
}

// Fetched adds received deliveries. They wait until Admissible returns them.
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

// Waits reports whether received deliveries still wait for Admissible.
func (c *Checkpointer) Waits() bool { return len(c.waiting) > 0 }

// Moved reports whether the database was restored, or the consumer rewound.
func (c *Checkpointer) Moved() bool { return c.moved }

// Session returns the id of this session. It identifies the owner of claimed messages and occupied
// partitions.
func (c *Checkpointer) Session() string { return c.session }

// Patient reports whether the consumer waits for a short time for the last owners of partitions. Run waits,
// Step does not.
func (c *Checkpointer) Patient() bool { return c.patient }

// SetPatient sets the field Patient.
func (c *Checkpointer) SetPatient(patient bool) { c.patient = patient }
