package demo

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/sagatest"
)

// watchedOrders is how many orders are watched: one of them is told about.
const watchedOrders = 48

// A witness remembers each delivery of the first orders that come by, and each fault that was injected into
// one of their messages.
type witness struct {
	mu     sync.Mutex
	seen   map[string][]arrival // by order
	orders map[string]string    // by message
	faults map[string][]Fault   // by order
}

type arrival struct {
	at        time.Time
	group, id string
	again     bool // not the first time in this process
}

func newWitness() *witness {
	return &witness{seen: map[string][]arrival{}, orders: map[string]string{}, faults: map[string][]Fault{}}
}

// meet tells whether the order of m is watched. It is called under mu.
func (w *witness) meet(m *skald.Message) bool {
	if _, ok := w.seen[string(m.Key)]; !ok && len(w.seen) >= watchedOrders || m.ID == "" {
		return false
	}
	w.orders[m.ID] = string(m.Key)
	w.seen[string(m.Key)] = w.seen[string(m.Key)]
	return true
}

func (w *witness) note(group string, ds []broker.Delivery) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range ds {
		d := &ds[i]
		if !w.meet(&d.Message) {
			continue
		}
		was := w.seen[string(d.Key)]
		a := arrival{at: now, group: group, id: d.ID}
		for _, before := range was {
			a.again = a.again || before.group == group && before.id == d.ID
		}
		w.seen[string(d.Key)] = append(was, a)
	}
}

// of is what was seen of an order.
func (w *witness) of(order string) []arrival {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[order]
}

// A Repeat is a message that a service was given more than once.
type Repeat struct {
	Message string    `json:"message"`
	Service string    `json:"service"`
	At      time.Time `json:"at"`
}

// repeats are those of the orders that were watched.
func (w *witness) repeats(prefix string) map[string][]Repeat {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string][]Repeat{}
	for order, seen := range w.seen {
		out[order] = []Repeat{} // it was watched
		for _, a := range seen {
			if a.again {
				out[order] = append(out[order], Repeat{a.id, strings.TrimPrefix(a.group, prefix+"."), a.at})
			}
		}
	}
	return out
}

// A Fault was injected into what a service did with a message.
type Fault struct {
	Message string    `json:"message"`
	Service string    `json:"service"`
	Kind    string    `json:"kind"` // as sagatest names it
	At      time.Time `json:"at"`
}

// struck notes the faults of a service's life.
func (w *witness) struck(service string, session *sagatest.Faults) {
	session.Tell(func(i sagatest.Injection) {
		now := time.Now()
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, m := range i.Messages {
			if order, ok := w.orders[m.ID]; ok {
				w.faults[order] = append(w.faults[order], Fault{m.ID, service, i.Kind, now})
			}
		}
	})
}

// struckOrders are the faults by order.
func (w *witness) struckOrders() map[string][]Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.faults)
}

// over is b, watched by w.
func (w *witness) over(b broker.Broker) broker.Broker { return watchedBroker{b, w} }

type watchedBroker struct {
	broker.Broker
	w *witness
}

// Publish meets messages before a fault can strike them.
func (b watchedBroker) Publish(ctx context.Context, msgs []skald.Message,
	only ...broker.Topics) broker.Pending {
	b.w.mu.Lock()
	for i := range msgs {
		b.w.meet(&msgs[i])
	}
	b.w.mu.Unlock()
	return b.Broker.Publish(ctx, msgs, only...)
}

func (b watchedBroker) Subscribe(ctx context.Context, g broker.Group) (broker.Subscription, error) {
	s, err := b.Broker.Subscribe(ctx, g)
	if err != nil {
		return nil, err
	}
	return watchedSubscription{s, g.Name, b.w}, nil
}

type watchedSubscription struct {
	broker.Subscription
	group string
	w     *witness
}

func (s watchedSubscription) Receive(ctx context.Context, most int) (broker.Batch, error) {
	batch, err := s.Subscription.Receive(ctx, most)
	if err == nil {
		s.w.note(s.group, batch.Deliveries)
	}
	return batch, err
}
