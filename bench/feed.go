package main

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/uuid7"
)

// A feed is a subscription in this process that always has more, until its partition is paused.
type feed struct {
	next  func() (skald.Message, bool) // false: no more
	ready chan struct{}

	mu      sync.Mutex
	paused  bool
	told    bool
	at      int64 // position of the next delivery
	acked   int64 // up to here, excluded
	dry     bool
	drained chan struct{} // closed when everything was acknowledged and there is no more
}

const feedPartition = "orders/0"

func newFeed(next func() (skald.Message, bool)) *feed {
	f := &feed{next: next, ready: make(chan struct{}, 1), drained: make(chan struct{})}
	f.ready <- struct{}{}
	return f
}

func (f *feed) Subscribe(context.Context, broker.Group) (broker.Subscription, error) { return f, nil }

func (f *feed) Ready() <-chan struct{} { return f.ready }

func (f *feed) Alarm() string { return "" }

func (f *feed) Receive(_ context.Context, most int) (broker.Batch, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var b broker.Batch
	if !f.told {
		f.told = true
		// so that positions are kept, as with Kafka
		b.Gained = []broker.Partition{{Name: feedPartition, Clean: true, Origin: rand.Text(), Started: true}}
	}
	for range most {
		if f.paused || f.dry {
			return b, nil
		}
		m, ok := f.next()
		if !ok {
			f.dry = true
			return b, nil
		}
		b.Deliveries = append(b.Deliveries,
			broker.Delivery{Message: m, Partition: feedPartition, Position: f.at})
		f.at++
	}
	f.signal()
	return b, nil
}

func (f *feed) Ack(_ context.Context, ds []broker.Delivery) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range ds {
		f.acked = max(f.acked, d.Position+1)
	}
	if f.dry && f.acked == f.at {
		select {
		case <-f.drained:
		default:
			close(f.drained)
		}
	}
	return nil
}

func (f *feed) Pause(...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paused = true
}

func (f *feed) Resume(...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paused = false
	f.signal()
}

func (f *feed) signal() {
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

func (f *feed) Close(context.Context) error { return nil }

// newMessage is one that another service's outbox wrote.
func newMessage(n int64, data []byte) skald.Message {
	now := time.Now().UTC()
	id := uuid7.New(now)
	return skald.Message{
		ID: id, Source: "/shop", Type: "order.placed", Topic: "orders", Key: []byte(orderKey(n)), Time: now,
		ContentType: "application/json", CorrelationID: id, Data: data,
	}
}
