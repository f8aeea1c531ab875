// This file has the calls of an inbox to its broker. Each call has a deadline.

package inbox

import (
	"context"
	"time"

	"github.com/skald-go/skald/broker"
)

const (
	// joinMost bounds one attempt to join. After a timeout the queues that it declared at the broker remain,
	// so the next attempt takes less time.
	joinMost = 30 * time.Second
	// leaveMost bounds leaving the group.
	leaveMost = 5 * time.Second
	// callMost bounds every other call. Drivers receive and acknowledge without waiting for the server.
	callMost = 10 * time.Second
)

// join joins g at bus. If g has no topics it returns a subscription that never receives a message.
func join(ctx context.Context, bus broker.Subscriber, g broker.Group) (broker.Subscription, error) {
	if len(g.Topics) == 0 {
		return idle{}, nil
	}
	ctx, stop := context.WithTimeout(ctx, joinMost)
	defer stop()
	sub, err := bus.Subscribe(ctx, g)
	if err != nil {
		return nil, err
	}
	return bounded{sub}, nil
}

// bounded adds a deadline to each call of a subscription.
type bounded struct{ broker.Subscription }

func (b bounded) Receive(ctx context.Context, most int) (broker.Batch, error) {
	ctx, stop := context.WithTimeout(ctx, callMost)
	defer stop()
	return b.Subscription.Receive(ctx, most)
}

func (b bounded) Ack(ctx context.Context, ds []broker.Delivery) error {
	ctx, stop := context.WithTimeout(ctx, callMost)
	defer stop()
	return b.Subscription.Ack(ctx, ds)
}

func (b bounded) Close(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, leaveMost)
	defer stop()
	return b.Subscription.Close(ctx)
}

// lag returns how many messages wait for a consumer, by topic.
func lag(ctx context.Context, b broker.Lagger, consumer string, topics ...string) (map[string]int64, error) {
	ctx, stop := context.WithTimeout(ctx, callMost)
	defer stop()
	return b.Lag(ctx, consumer, topics...)
}

// idle is a subscription that never receives a message.
type idle struct{}

func (idle) Ready() <-chan struct{}                                 { return nil }
func (idle) Receive(context.Context, int) (b broker.Batch, _ error) { return b, nil }
func (idle) Ack(context.Context, []broker.Delivery) error           { return nil }
func (idle) Pause(...string)                                        {}
func (idle) Resume(...string)                                       {}
func (idle) Alarm() string                                          { return "" }
func (idle) Close(context.Context) error                            { return nil }
