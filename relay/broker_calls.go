// This file has all calls of the broker.

package relay

import (
	"context"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/telemetry"
)

// callPublish publishes msgs. The driver limits the wait for an answer.
func (r *Relay) callPublish(ctx context.Context, msgs []skald.Message) broker.Pending {
	return r.bus.Publish(ctx, msgs, r.topics.ids)
}

// callTopics reads the IDs of topics from the broker. It waits at most maxWait.
func (r *Relay) callTopics(ctx context.Context, maxWait time.Duration,
	names ...string) (broker.Topics, error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	return r.bus.Topics(ctx, names...)
}

// callIncarnation reads the incarnation of the broker. It waits at most maxWait.
func (r *Relay) callIncarnation(ctx context.Context, maxWait time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	return r.bus.Incarnation(ctx)
}

// lag returns a function that reads the number of messages that wait for a consumer from the broker. It also
// works while no process of the consumer runs. lag returns nil if the driver does not support this.
func (r *Relay) lag() telemetry.Lagger {
	b, ok := r.bus.(broker.Lagger)
	if !ok {
		return nil
	}
	return func(ctx context.Context, consumer string, topics []string) (map[string]int64, error) {
		ctx, cancel := context.WithTimeout(ctx, storeTimeout)
		defer cancel()
		return b.Lag(ctx, consumer, topics...)
	}
}
