package demo

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/skald-go/skald/broker"
)

// watchedOrders is how many orders are watched: one of them is told about.
const watchedOrders = 48

// A witness remembers each delivery of the first orders that come by.
type witness struct {
	mu   sync.Mutex
	seen map[string][]arrival // by order
}

type arrival struct {
	at        time.Time
	group, id string
	again     bool // not the first time in this process
}

func newWitness() *witness { return &witness{seen: map[string][]arrival{}} }

func (w *witness) note(group string, ds []broker.Delivery) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range ds {
		d := &ds[i]
		was, ok := w.seen[string(d.Key)]
		if !ok && len(w.seen) >= watchedOrders || d.ID == "" {
			continue
		}
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

// over is b, watched by w.
func (w *witness) over(b broker.Broker) broker.Broker { return watchedBroker{b, w} }

type watchedBroker struct {
	broker.Broker
	w *witness
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
