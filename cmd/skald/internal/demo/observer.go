// This file observes the first orders of a run at the broker: repeated deliveries, and the faults that were
// injected into their messages. The story of the run uses these observations.

package demo

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/sagatest"
)

// orders is the number of observed orders.
const orders = 48

// observer records each delivery of the first orders, and each fault that was injected into their messages.
type observer struct {
	mu     sync.Mutex
	seen   map[string][]arrival // by order
	orders map[string]string    // by message
	faults map[string][]fault   // by order
}

type arrival struct {
	at        time.Time
	group, id string
	again     bool // true if the message arrived at this group before
}

func newObserver() *observer {
	return &observer{seen: map[string][]arrival{}, orders: map[string]string{}, faults: map[string][]fault{}}
}

// observes returns true if m belongs to an observed order. It begins to observe the order of m, if there are
// fewer than the maximum. The caller holds mu.
func (w *observer) observes(m *skald.Message) bool {
	if _, ok := w.seen[string(m.Key)]; !ok && len(w.seen) >= orders || m.ID == "" {
		return false
	}
	w.orders[m.ID] = string(m.Key)
	w.seen[string(m.Key)] = w.seen[string(m.Key)]
	return true
}

func (w *observer) note(group string, ds []broker.Delivery) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range ds {
		d := &ds[i]
		if !w.observes(&d.Message) {
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

// Observed reports whether deliveries of an order were recorded, and whether one of them was a repeat.
func (w *observer) Observed(order string) (any, again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen[order]
	return len(seen) > 0, slices.ContainsFunc(seen, func(a arrival) bool { return a.again })
}

// repeat is a repeated delivery of a message to a service.
type repeat struct {
	Message string    `json:"message"`
	Service string    `json:"service"`
	At      time.Time `json:"at"`
}

// Repeats returns the repeats of all observed orders.
func (w *observer) Repeats(prefix string) map[string][]repeat {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string][]repeat{}
	for order, seen := range w.seen {
		out[order] = []repeat{} // an empty list means that the order was observed and had no repeats
		for _, a := range seen {
			if a.again {
				out[order] = append(out[order], repeat{a.id, strings.TrimPrefix(a.group, prefix+"."), a.at})
			}
		}
	}
	return out
}

// fault is a fault that was injected into the work of a service on a message.
type fault struct {
	Message string    `json:"message"`
	Service string    `json:"service"`
	Kind    string    `json:"kind"` // a kind of package sagatest
	At      time.Time `json:"at"`
}

// Struck records the faults of a session of a service.
func (w *observer) Struck(service string, session *sagatest.Faults) {
	session.OnFault(func(i sagatest.Injection) {
		now := time.Now()
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, m := range i.Messages {
			if order, ok := w.orders[m.ID]; ok {
				w.faults[order] = append(w.faults[order], fault{m.ID, service, i.Kind, now})
			}
		}
	})
}

// Faults returns the recorded faults, by order.
func (w *observer) Faults() map[string][]fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.faults)
}

// Over returns a broker that is like b, but records the deliveries in the observer w.
func (w *observer) Over(b broker.Broker) broker.Broker { return watchedBroker{b, w} }

type watchedBroker struct {
	broker.Broker
	w *observer
}

// Publish registers messages before a fault can be injected into them.
func (b watchedBroker) Publish(ctx context.Context, msgs []skald.Message,
	only ...broker.Topics) broker.Pending {
	b.w.mu.Lock()
	for i := range msgs {
		b.w.observes(&msgs[i])
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
	w     *observer
}

func (s watchedSubscription) Receive(ctx context.Context, most int) (broker.Batch, error) {
	batch, err := s.Subscription.Receive(ctx, most)
	if err == nil {
		s.w.note(s.group, batch.Deliveries)
	}
	return batch, err
}
