// Package feed is the receiving side of a subscription as all drivers have it: the partitions that a member
// owns, what was read ahead from them and not delivered yet, turns, pauses, and what the next Receive is to
// tell. A driver adds what is its broker's own: how partitions are assigned, read and acknowledged.
package feed

import (
	"cmp"
	"slices"
	"sync"

	"github.com/skald-go/skald/broker"
)

// A Partition is one that a member owns, from one gain to one loss. Drivers embed it.
type Holding struct {
	broker.Partition // as it is told when it is gained
	Topic            string
	Index            int
	Waiting          bool  // where it begins is not known yet: it is not told of
	Told             int64 // the last position that was delivered
	Acked            int64 // the last position that was acknowledged
	paused           bool
}

// Base is the partition itself.
func (p *Holding) Base() *Holding { return p }

// Paused tells whether nothing of it is delivered.
func (p *Holding) Paused() bool { return p.paused }

func (p *Holding) compare(q *Holding) int {
	return cmp.Or(cmp.Compare(p.Topic, q.Topic), cmp.Compare(p.Index, q.Index), cmp.Compare(p.Name, q.Name))
}

// An Owned is a driver's partition with what was read of it.
type Owned interface {
	comparable
	Base() *Holding
	// Len is how many messages were read and not delivered.
	Len() int
	// Take appends the first n of them to out, and forgets them; n is at most Len.
	Take(out []broker.Delivery, n int) []broker.Delivery
}

// change is what happened to a partition since the last Receive: lost, then gained, each at most once.
type change struct {
	of                    Holding
	lost, unclean, gained bool
}

// A Feed is the partitions of one member. It shares its lock with its driver: Ready, Receive, Pause, Resume,
// Owned and Fail take it, all other methods are called with the lock held.
type Feed[O Owned] struct {
	mu      *sync.Mutex
	ready   chan struct{}
	owned   []O // by topic and index
	byName  map[string]O
	turn    int // the next to deliver first, so that a deep partition does not starve the others
	changes map[string]*change
	missed  []broker.Missed
	fault   error // the next Receive returns it
	gone    error // all calls return it
}

// New makes a feed without partitions.
func New[O Owned](mu *sync.Mutex) *Feed[O] {
	return &Feed[O]{mu: mu, ready: make(chan struct{}, 1), byName: map[string]O{},
		changes: map[string]*change{}}
}

// Ready has a value when something may have come.
func (f *Feed[O]) Ready() <-chan struct{} { return f.ready }

// Wake gives Ready a value. It needs no lock.
func (f *Feed[O]) Wake() { Signal(f.ready) }

// Signal gives c, which has room for one value, a value if it has none.
func Signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Receive returns what is there: an error that Fail told, or changes of partitions and then at most max
// messages.
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
	b := f.tell()
	if n := min(max, f.held()); n > 0 {
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
	if f.held() > 0 {
		f.Wake()
	}
	return b, nil
}

// held is how many messages could be delivered.
func (f *Feed[O]) held() (n int) {
	for _, o := range f.owned {
		if !o.Base().paused {
			n += o.Len()
		}
	}
	return n
}

// tell empties what is to be told about partitions.
func (f *Feed[O]) tell() (b broker.Batch) {
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
			f.changes[c.of.Name] = &change{of: c.of, gained: true} // a later Receive tells
		case there:
			told := o.Base().Partition
			told.Clean = true
			b.Gained = append(b.Gained, told)
		}
	}
	return b
}

// Gain adds partitions that the member owns from now on.
func (f *Feed[O]) Gain(os ...O) {
	for _, o := range os {
		f.owned = append(f.owned, o)
		f.byName[o.Base().Name] = o
		f.change(o.Base()).gained = true
	}
	slices.SortFunc(f.owned, func(a, b O) int { return a.Base().compare(b.Base()) })
	f.Wake()
}

// Lose drops a partition, with what was read of it. It reports whether it was owned.
func (f *Feed[O]) Lose(o O, clean bool) bool {
	at := slices.Index(f.owned, o)
	if at < 0 {
		return false
	}
	f.owned = slices.Delete(f.owned, at, at+1)
	if o.Base().paused = false; f.byName[o.Base().Name] == o {
		delete(f.byName, o.Base().Name)
	}
	if c := f.change(o.Base()); c.gained { // nobody was told of it: there is nothing to forget
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

// Untold are the partitions that the next Receive tells as gained.
func (f *Feed[O]) Untold() (out []O) {
	for _, o := range f.owned {
		if c := f.changes[o.Base().Name]; c != nil && c.gained {
			out = append(out, o)
		}
	}
	return out
}

// Find is the partition of that name, if the member owns it.
func (f *Feed[O]) Find(name string) (o O, owned bool) {
	o, owned = f.byName[name]
	return o, owned
}

// All are the partitions that the member owns, by topic and index.
func (f *Feed[O]) All() []O { return f.owned }

// Owned is a copy of All, made under the lock.
func (f *Feed[O]) Owned() []O {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.owned)
}

// Ack notes that ds are finished, each with all deliveries before it in its partition. It ignores
// deliveries of an earlier ownership. It returns each partition with progress once, in any order of ds:
// RabbitMQ closes the channel for a repeated acknowledgement.
func (f *Feed[O]) Ack(ds []broker.Delivery) (moved []O, err error) {
	if f.gone != nil {
		return nil, f.gone
	}
	for i := range ds {
		d := &ds[i]
		if i+1 < len(ds) && ds[i+1].Partition == d.Partition && ds[i+1].Position > d.Position {
			continue // the next one says it all
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

// Pause stops deliveries from partitions until Resume, or until they are lost. It returns those that flowed.
func (f *Feed[O]) Pause(names ...string) []O { return f.pause(true, names) }

// Resume lets deliveries flow again. It returns the partitions that were paused.
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

// Miss tells of messages that the broker removed before they were read.
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

// End makes all further calls return why, unless they return another reason already. It reports whether this
// is the first.
func (f *Feed[O]) End(why error) bool {
	f.Wake()
	if f.gone != nil {
		return false
	}
	f.gone = why
	return true
}

// Ended is why calls do not work any more; nil: they work.
func (f *Feed[O]) Ended() error { return f.gone }

// Clear drops all partitions and tells nobody.
func (f *Feed[O]) Clear() {
	f.owned = nil
	clear(f.byName)
}
