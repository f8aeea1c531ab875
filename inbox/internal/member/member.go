// Package member joins a consumer's group; a consumer that handles nothing joins none.
package member

import (
	"context"

	"github.com/skald-go/skald/broker"
)

// Join joins g at bus. Without topics nothing is joined, and nothing comes.
func Join(ctx context.Context, bus broker.Subscriber, g broker.Group) (broker.Subscription, error) {
	if len(g.Topics) == 0 {
		return idle{}, nil
	}
	return bus.Subscribe(ctx, g)
}

// idle is a subscription to nothing.
type idle struct{}

func (idle) Ready() <-chan struct{}                                 { return nil }
func (idle) Receive(context.Context, int) (b broker.Batch, _ error) { return b, nil }
func (idle) Ack(context.Context, []broker.Delivery) error           { return nil }
func (idle) Pause(...string)                                        {}
func (idle) Resume(...string)                                       {}
func (idle) Alarm() string                                          { return "" }
func (idle) Close(context.Context) error                            { return nil }
