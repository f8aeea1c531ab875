// Package feed is the receiving side of a subscription, shared by all drivers. It tracks the partitions of
// a member, prefetched messages, pauses, and the changes that the next Receive reports; it serves
// partitions in turn. A driver adds how its broker assigns, reads and acknowledges partitions.
package feed

import (
	"cmp"
	"slices"
	"sync"

	"github.com/skald-go/skald/broker"
)

// Holding is a partition of a member, from one gain to one loss. Drivers embed it.
type Holding struct {
	broker.Partition // as it is reported when gained
	Topic            string
	Index            int
	Waiting          bool  // its beginning is unknown yet, so it is not reported
	Told             int64 // the last position that was delivered
	Acked            int64 // the last position that was acknowledged
	paused           bool
}

// Base returns p itself.
func (p *Holding) Base() *Holding { return p }

// Paused reports whether deliveries are paused.
func (p *Holding) Paused() bool { return p.paused }

func (p *Holding) compare(q *Holding) int {
	return cmp.Or(cmp.Compare(p.Topic, q.Topic), cmp.Compare(p.Index, q.Index), cmp.Compare(p.Name, q.Name))
}

// Owned is a driver's partition with its prefetched messages.
type Owned interface {
	comparable
	Base() *Holding
	// Len returns the number of prefetched messages.
	Len() int
	// Take removes the first n of them and appends them to out; n is at most Len.
	Take(out []broker.Delivery, n int) []broker.Delivery
}

// change is the change of a partition since the last Receive: lost, then gained, each at most once.
type change struct {
	of                    Holding
	lost, unclean, gained bool
}

// Feed has the partitions of one member. It shares its driver's lock: Ready, Receive, Pause, Resume,
// Owned and Fail take it; the caller of any other method holds it.
type Feed[O Owned] struct {
	mu      *sync.Mutex
	ready   chan struct{}
	owned   []O // by topic and index
	byName  map[string]O
	turn    int // the partition to deliver first, so that a full one does not starve the others
	changes map[string]*change
	missed  []broker.Missed
	fault   error // the next Receive returns it
	gone    error // all calls return it
}

// New returns a feed without partitions.
func New[O Owned](mu *sync.Mutex) *Feed[O] {
	return &Feed[O]{mu: mu, ready: make(chan struct{}, 1), byName: map[string]O{},
		changes: map[string]*change{}}
}

// Ready receives a value when messages or changes may have arrived.
func (f *Feed[O]) Ready() <-chan struct{} { return f.ready }

// Wake gives Ready a value. It needs no lock.
func (f *Feed[O]) Wake() { Signal(f.ready) }

// Signal sends to c, a channel with a buffer of one, unless it is full.
func Signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Receive returns the error of Fail, or else changes of partitions and at most max messages.
func (f *Feed[O]) Receive(max int) (broker.Batch, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Next(max)
}

// Next is Receive with the lock held.
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

// takeChanges returns the changes to report, and clears them.
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
			f.changes[c.of.Name] = &change{of: c.of, gained: true} // reported by a later Receive
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

// Lose removes a partition and its prefetched messages. Returns false if it was not owned.
func (f *Feed[O]) Lose(o O, clean bool) bool {
	at := slices.Index(f.owned, o)
	if at < 0 {
		return false
	}
	f.owned = slices.Delete(f.owned, at, at+1)
	if o.Base().paused = false; f.byName[o.Base().Name] == o {
		delete(f.byName, o.Base().Name)
	}
	if c := f.change(o.Base()); c.gained { // the gain was not reported, so the loss is not either
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

// Untold returns the partitions that the next Receive reports as gained.
func (f *Feed[O]) Untold() (out []O) {
	for _, o := range f.owned {
		if c := f.changes[o.Base().Name]; c != nil && c.gained {
			out = append(out, o)
		}
	}
	return out
}

// Find returns the partition of that name, if the member owns it.
func (f *Feed[O]) Find(name string) (o O, owned bool) {
	o, owned = f.byName[name]
	return o, owned
}

// All returns the member's partitions, by topic and index.
func (f *Feed[O]) All() []O { return f.owned }

// Owned returns a copy of All. It takes the lock.
func (f *Feed[O]) Owned() []O {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.owned)
}

// Ack acknowledges ds and all earlier deliveries of their partitions. It ignores deliveries of an earlier
// ownership. It returns each partition with progress once, for any order of ds: RabbitMQ closes the channel
// after a repeated acknowledgement.
func (f *Feed[O]) Ack(ds []broker.Delivery) (moved []O, err error) {
	if f.gone != nil {
		return nil, f.gone
	}
	for i := range ds {
		d := &ds[i]
		if i+1 < len(ds) && ds[i+1].Partition == d.Partition && ds[i+1].Position > d.Position {
			continue // covered by the next one
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

// Pause stops deliveries from partitions until Resume, or until they are lost. It returns those that were
// not paused before.
func (f *Feed[O]) Pause(names ...string) []O { return f.pause(true, names) }

// Resume restarts deliveries. It returns the partitions that were paused.
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

// Miss makes the next Receive report messages that the broker removed unread.
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

// SetFault is Fail with the lock held.
func (f *Feed[O]) SetFault(err error) {
	f.fault = err
	f.Wake()
}

// End makes all further calls return why, or the reason of an earlier End. Returns false if it was called
// before.
func (f *Feed[O]) End(why error) bool {
	f.Wake()
	if f.gone != nil {
		return false
	}
	f.gone = why
	return true
}

// EndReason returns the reason of End; nil before.
func (f *Feed[O]) EndReason() error { return f.gone }

// Clear removes all partitions without reporting it.
func (f *Feed[O]) Clear() {
	f.owned = nil
	clear(f.byName)
}
