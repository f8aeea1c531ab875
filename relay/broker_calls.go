package relay

import (
	"context"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/telemetry"
)

// callPublish publishes msgs. The driver limits the time until its answer.
func (r *Relay) callPublish(ctx context.Context, msgs []skald.Message) broker.Pending {
	return r.bus.Publish(ctx, msgs, r.topics.ids)
}

// callTopics reads the IDs of topics from the broker, within most.
func (r *Relay) callTopics(ctx context.Context, most time.Duration, names ...string) (broker.Topics, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return r.bus.Topics(ctx, names...)
}

// callIncarnation reads the broker's incarnation, within most.
func (r *Relay) callIncarnation(ctx context.Context, most time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return r.bus.Incarnation(ctx)
}

// lag returns a function that reads from the broker how many messages wait for a consumer. It works even if
// the consumer's own processes are gone. It returns nil if the driver cannot report this.
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
