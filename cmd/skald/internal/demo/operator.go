package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/audit"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
)

const (
	// poisonEvery is the number of orders for each unreadable message.
	poisonEvery = 40
	// round is the pause after each round of the operator.
	round = 250 * time.Millisecond
)

// deadLettersPossible returns true if the injected faults can make dead letters.
func (c *crew) deadLettersPossible() bool {
	rates, _ := sagatest.RatesOf(c.o.Faults) // Check has checked the name
	return rates.HandlerGivesUp > 0
}

// poison publishes an unreadable message with the key of an order. The messages of this order wait until the
// operator drops the unreadable message.
func (c *crew) poison(ctx context.Context, order string, n int) {
	if !c.deadLettersPossible() || n%poisonEvery != poisonEvery/2 {
		return
	}
	placed := event.New(c.o.Prefix).OrderPlaced
	kind := placed.Type
	if c.o.orchestrated() {
		kind = event.ChargePayment
	}
	m := unreadable(kind, placed.Topic, order, n/poisonEvery%2 == 1)
	insist(ctx, c.o.Logger, order,
		func() error { return c.bus.Own.Publish(ctx, []skald.Message{m}).Wait(ctx) })
	c.poisoned.Add(int64(len(audit.Subscribers(kind, c.o.orchestrated()))))
}

// operate repairs messages and sagas as an operator would, until ctx is done.
func (c *crew) operate(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(round):
		}
		for _, name := range service.Names() {
			n, err := c.site.repair(ctx, name, event.New(c.o.Prefix).Group(name))
			c.dropped.Add(int64(n))
			if err == nil && name == "order" {
				_, err = c.site.repair(ctx, name, event.New(c.o.Prefix).Group(event.Tracker))
			}
			if err == nil && name == "order" && c.o.orchestrated() {
				err = c.site.retry(ctx)
			}
			if err != nil && ctx.Err() == nil {
				c.o.Logger.WarnContext(ctx, "operator", "service", name, "error", err)
			}
		}
	}
}

// repaired returns true if no consumer has parked messages or dead letters, and all unreadable messages are
// dropped.
func (c *crew) repaired(ctx context.Context) (bool, error) {
	if c.dropped.Load() < c.poisoned.Load() {
		return false, nil
	}
	for _, name := range service.Names() {
		kept, err := c.site.countKept(ctx, name, event.New(c.o.Prefix).Group(name))
		if kept > 0 || err != nil {
			return false, err
		}
	}
	kept, err := c.site.countKept(ctx, "order", event.New(c.o.Prefix).Group(event.Tracker))
	return kept == 0, err
}

// repair repairs the messages of a service, if its database exists.
func (s *shop[TTx]) repair(ctx context.Context, name, consumer string) (dropped int, err error) {
	home, err := s.Home(ctx, name)
	if err != nil {
		return 0, nil // not yet
	}
	if dropped, err = repair(ctx, home.Store, consumer); err != nil {
		err = fmt.Errorf("repair the messages of %s: %w", name, err)
	}
	return dropped, err
}

func (s *shop[TTx]) retry(ctx context.Context) error {
	home, err := s.Home(ctx, "order")
	if err != nil {
		return nil // not yet
	}
	return retry(ctx, home.Store)
}

// countKept returns the number of parked messages and dead letters of a service.
func (s *shop[TTx]) countKept(ctx context.Context, name, consumer string) (int64, error) {
	home, err := s.Home(ctx, name)
	if err != nil {
		return 0, err
	}
	k, err := home.Store.Status(ctx, store.StatusQuery{ParkedOf: consumer})
	return k.Parked.Parked + k.Parked.Dead, err
}
