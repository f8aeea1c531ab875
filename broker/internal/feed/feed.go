// Package feed has the code for subscriptions that all drivers share. A Feed has the partitions of a member,
// their prefetched messages, and the changes that the next Receive reports. It delivers messages from the
// partitions in turn. The drivers assign, read and acknowledge partitions.
package feed

import (
	"cmp"
	"slices"
	"sync"

	"github.com/skald-go/skald/broker"
)

// Holding is a partition that a member owns, until the member loses it. Drivers embed it in their type of a
// partition.
type Holding struct {
	broker.Partition // reported when the member gains it
	Topic            string
	Index            int
	Waiting          bool  // the first position is unknown yet, so the gain is not reported
	Told             int64 // the last position that was delivered
	Acked            int64 // the last position that was acknowledged
	paused           bool
}

// Base returns p. With it, a Feed gets the Holding that a driver's type embeds.
func (p *Holding) Base() *Holding { return p }

// Paused returns true if deliveries are paused.
func (p *Holding) Paused() bool { return p.paused }

func (p *Holding) compare(q *Holding) int {
	return cmp.Or(cmp.Compare(p.Topic, q.Topic), cmp.Compare(p.Index, q.Index), cmp.Compare(p.Name, q.Name))
}

// Owned is the type of a driver's partition, with its prefetched messages.
type Owned interface {
	comparable
	Base() *Holding
	// Len returns the number of prefetched messages.
	Len() int
	// Take removes the first n prefetched messages, and appends them to out. n is at most Len.
	Take(out []broker.Delivery, n int) []broker.Delivery
}

// change has the changes of a partition since the last Receive: it was lost, then gained, or one of both.
type change struct {
	of                    Holding
	lost, unclean, gained bool
}

// Feed has the partitions of one member. mu is the lock of the driver. Ready, Wake, Receive, Pause, Resume,
// Owned and Fail must be called without the lock. All other methods must be called with it.
type Feed[O Owned] struct {
	mu      *sync.Mutex
	ready   chan struct{}
	owned   []O // by topic and index
	byName  map[string]O
	turn    int // the index of the next partition to deliver from
	changes map[string]*change
	missed  []broker.Missed
	fault   error // the error that the next Receive returns
	gone    error // the error that all calls return after End
}

// New returns a feed without partitions.
func New[O Owned](mu *sync.Mutex) *Feed[O] {
	return &Feed[O]{mu: mu, ready: make(chan struct{}, 1), byName: map[string]O{},
		changes: map[string]*change{}}
}

// Ready returns a channel that receives a value when messages or changes may have arrived.
func (f *Feed[O]) Ready() <-chan struct{} { return f.ready }

// Wake sends a value to the channel of Ready. It needs no lock.
func (f *Feed[O]) Wake() { Signal(f.ready) }

// Signal sends a value to c, which has a buffer of one value. It does nothing if the buffer is full.
func Signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Receive returns the error of Fail, if there is one. Otherwise it returns changes of partitions, and at most
// max messages.
func (f *Feed[O]) Receive(max int) (broker.Batch, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Next(max)
}

// Next works like Receive. The caller holds the lock.
func (f *Feed[O]) Next(max int) (broker.Batch, error) {
	if f.gone != nil {
		return broker.Batch{}, f.gone
	}
	if err := f.fault; err != nil {
		f.fault = nil
		f.Wake()
		return broker.Batch{}, err
	}
	b := f.takeChanges()
	if n := min(max, f.deliverable()); n > 0 {
		b.Deliveries = make([]broker.Delivery, 0, n)
	}
	for range f.owned {
		if len(b.Deliveries) >= max {
			break
		}
		o := f.owned[f.turn%len(f.owned)]
		f.turn = (f.turn + 1) % len(f.owned)
		p := o.Base()
		if n := min(max-len(b.Deliveries), o.Len()); n > 0 && !p.paused {
			b.Deliveries = o.Take(b.Deliveries, n)
			p.Told = b.Deliveries[len(b.Deliveries)-1].Position
		}
	}
	if f.deliverable() > 0 {
		f.Wake()
	}
	return b, nil
}

// deliverable returns the number of messages that could be delivered.
func (f *Feed[O]) deliverable() (n int) {
	for _, o := range f.owned {
		if !o.Base().paused {
			n += o.Len()
		}
	}
	return n
}

// takeChanges returns the changes of partitions, and clears them. Gained partitions with Waiting stay for a
// later Receive.
func (f *Feed[O]) takeChanges() (b broker.Batch) {
	b.Missed, f.missed = f.missed, nil
	if len(f.changes) == 0 {
		return b
	}
	changed := make([]*change, 0, len(f.changes))
	for _, c := range f.changes {
		changed = append(changed, c)
	}
	slices.SortFunc(changed, func(c, d *change) int { return c.of.compare(&d.of) })
	clear(f.changes)
	for _, c := range changed {
		if c.lost {
			b.Lost = append(b.Lost, broker.Partition{Name: c.of.Name, Clean: !c.unclean})
		}
		if !c.gained {
			continue
		}
		switch o, there := f.Find(c.of.Name); {
		case there && o.Base().Waiting:
			f.changes[c.of.Name] = &change{of: c.of, gained: true} // a later Receive reports it
		case there:
			told := o.Base().Partition
			told.Clean = true
			b.Gained = append(b.Gained, told)
		}
	}
	return b
}

// Gain adds partitions that the member now owns.
func (f *Feed[O]) Gain(os ...O) {
	for _, o := range os {
		f.owned = append(f.owned, o)
		f.byName[o.Base().Name] = o
		f.change(o.Base()).gained = true
	}
	slices.SortFunc(f.owned, func(a, b O) int { return a.Base().compare(b.Base()) })
	f.Wake()
}

// Lose removes a partition and its prefetched messages. It returns false if the member did not own the
// partition.
func (f *Feed[O]) Lose(o O, clean bool) bool {
	at := slices.Index(f.owned, o)
	if at < 0 {
		return false
	}
	f.owned = slices.Delete(f.owned, at, at+1)
	if o.Base().paused = false; f.byName[o.Base().Name] == o {
		delete(f.byName, o.Base().Name)
	}
	if c := f.change(o.Base()); c.gained { // neither the gain nor the loss is reported
		c.gained = false
	} else {
		c.lost, c.unclean = true, !clean
	}
	f.Wake()
	return true
}

func (f *Feed[O]) change(p *Holding) *change {
	c := f.changes[p.Name]
	if c == nil {
		c = &change{of: Holding{Partition: broker.Partition{Name: p.Name}, Topic: p.Topic, Index: p.Index}}
		f.changes[p.Name] = c
	}
	return c
}

// Untold returns the gained partitions that Receive has not reported yet.
func (f *Feed[O]) Untold() (out []O) {
	for _, o := range f.owned {
		if c := f.changes[o.Base().Name]; c != nil && c.gained {
			out = append(out, o)
		}
	}
	return out
}

// Find returns the partition with that name. owned is false if the member does not own it.
func (f *Feed[O]) Find(name string) (o O, owned bool) {
	o, owned = f.byName[name]
	return o, owned
}

// All returns the partitions of the member, by topic and index.
func (f *Feed[O]) All() []O { return f.owned }

// Owned returns a copy of All. It takes the lock.
func (f *Feed[O]) Owned() []O {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.owned)
}

// Ack acknowledges ds and all earlier deliveries of their partitions. It ignores deliveries of lost
// partitions. It returns the partitions in which this acknowledges new messages, each partition once.
// Otherwise the RabbitMQ driver would acknowledge a message twice, and RabbitMQ would close the channel.
func (f *Feed[O]) Ack(ds []broker.Delivery) (moved []O, err error) {
	if f.gone != nil {
		return nil, f.gone
	}
	for i := range ds {
		d := &ds[i]
		if i+1 < len(ds) && ds[i+1].Partition == d.Partition && ds[i+1].Position > d.Position {
			continue // the next delivery acknowledges this one too
		}
		o, owned := f.Find(d.Partition)
		if !owned {
			continue
		}
		if p := o.Base(); min(d.Position, p.Told) > p.Acked {
			p.Acked = min(d.Position, p.Told)
			if !slices.Contains(moved, o) {
				moved = append(moved, o)
			}
		}
	}
	return moved, nil
}

// Pause stops deliveries from partitions until Resume, or until the member loses them. It returns the
// partitions that were not paused before.
func (f *Feed[O]) Pause(names ...string) []O { return f.pause(true, names) }

// Resume restarts deliveries from partitions. It returns the partitions that were paused.
func (f *Feed[O]) Resume(names ...string) []O {
	defer f.Wake()
	return f.pause(false, names)
}

func (f *Feed[O]) pause(on bool, names []string) (changed []O) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names {
		if o, owned := f.Find(name); owned && o.Base().paused != on {
			o.Base().paused = on
			changed = append(changed, o)
		}
	}
	return changed
}

// Miss makes the next Receive report messages that the broker removed before the group read them.
func (f *Feed[O]) Miss(m broker.Missed) {
	f.missed = append(f.missed, m)
	f.Wake()
}

// Fail makes the next Receive return err, once.
func (f *Feed[O]) Fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.SetFault(err)
}

// SetFault works like Fail. The caller holds the lock.
func (f *Feed[O]) SetFault(err error) {
	f.fault = err
	f.Wake()
}

// End makes all later calls return the error cause. If End was called before, it returns false and keeps the
// earlier error.
func (f *Feed[O]) End(cause error) bool {
	f.Wake()
	if f.gone != nil {
		return false
	}
	f.gone = cause
	return true
}

// EndReason returns the reason of End, or nil before End.
func (f *Feed[O]) EndReason() error { return f.gone }

// Clear removes all partitions. Receive does not report this.
func (f *Feed[O]) Clear() {
	f.owned = nil
	clear(f.byName)
}
