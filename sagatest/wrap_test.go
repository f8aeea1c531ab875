package sagatest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/brokertest"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
	"github.com/skald-go/skald/store/storetest"
)

// wrapped is a database whose drivers are wrapped.
type wrapped struct {
	storetest.Database[*memstore.Tx]
	f *sagatest.Faults
}

func (w wrapped) Driver(t testing.TB) store.Driver[*memstore.Tx] {
	return sagatest.WrapDriver(w.Database.Driver(t), w.f)
}

// TestWrappedDriverConforms: without faults the wrapped driver passes the whole suite.
func TestWrappedDriverConforms(t *testing.T) {
	h := storetest.Memory()
	open := h.Open
	h.Open = func(t testing.TB) storetest.Database[*memstore.Tx] {
		return wrapped{open(t), sagatest.NewFaults(1, sagatest.None())}
	}
	storetest.Run(t, h)
}

// TestWrappedBrokerConforms: the publish contract holds with faults, and the whole suite passes without
// faults.
func TestWrappedBrokerConforms(t *testing.T) {
	brokertest.Run(t, func(t *testing.T) brokertest.Harness {
		limits := map[string]int{}
		bus := membroker.New(&membroker.Options{Fail: func(m *skald.Message) error {
			if n := limits[m.Topic]; n > 0 && len(m.Data) > n {
				return membroker.ErrRefused
			}
			return nil
		}})
		faults, members := sagatest.NewFaults(2, sagatest.None()),
			map[broker.Subscription]*membroker.Subscription{}
		return brokertest.Harness{
			Open: func(*testing.T) brokertest.Broker {
				inner := &tap{Broker: bus.Client()}
				return client{sagatest.WrapBroker(inner, faults), inner, members}
			},
			Limit: func(_ *testing.T, topic string, bytes int) { limits[topic] = bytes },
			Disturb: func(*testing.T) func() {
				faults.SetRates(sagatest.Rates{PublishFails: 0.2, PublishUnknown: 0.2})
				return func() { faults.SetRates(sagatest.None()) }
			},
			Kill:   func(_ *testing.T, s broker.Subscription) { members[s].Kill() },
			Counts: true,
		}
	})
}

// client has the subscription of the broker for each subscription of the wrapper.
type client struct {
	brokertest.Broker
	inner   *tap
	members map[broker.Subscription]*membroker.Subscription
}

func (c client) Subscribe(ctx context.Context, g broker.Group) (broker.Subscription, error) {
	s, err := c.Broker.Subscribe(ctx, g)
	if err == nil {
		c.members[s] = c.inner.last
	}
	return s, err
}

type tap struct {
	*membroker.Broker
	last *membroker.Subscription
}

func (b *tap) Subscribe(ctx context.Context, g broker.Group) (broker.Subscription, error) {
	s, err := b.Broker.Subscribe(ctx, g)
	if err == nil {
		b.last = s.(*membroker.Subscription)
	}
	return s, err
}

// TestWrappersHaveOptionalMethods: the wrappers have the optional methods of the wrapped drivers.
func TestWrappersHaveOptionalMethods(t *testing.T) {
	f := sagatest.NewFaults(1, sagatest.None())
	db, bus := memstore.New(nil), membroker.New(nil)
	if sagatest.WrapDriver(db, f).Woken() == nil {
		t.Error("a wrapped store that wakes does not wake")
	}
	wrapped := sagatest.AckFirst(sagatest.WrapBroker(bus, f))
	if err := wrapped.MakeTopics(t.Context(), 1, "t"); err != nil {
		t.Error("a wrapped broker that makes topics does not:", err)
	}
	if at, err := wrapped.Find(t.Context(), "t", time.Now()); err != nil || len(at) != 1 {
		t.Error("a wrapped broker that finds positions does not:", at, err)
	}
	if _, err := wrapped.Keeps(t.Context(), "t"); !errors.Is(err, broker.ErrUnsupported) {
		t.Error("a wrapped broker that does not tell how long it keeps messages says:", err)
	}
}
