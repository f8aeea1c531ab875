package natsbroker

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/feed"
)

// findFor is the lifetime of a temporary consumer that only finds a position.
const findFor = 5 * time.Second

// Find returns the position of the first message in the topic's stream that is not older than at. It returns
// the same position for each partition, because the partitions share the sequence of the stream.
func (b *Broker) Find(ctx context.Context, name string, at time.Time) ([]broker.Place, error) {
	ctx, cancel := context.WithTimeout(ctx, b.opts.Patience)
	defer cancel()
	t, err := b.look(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("find a time in %q: %w", name, err)
	}
	if t.shape != nil && t.shape.Durable {
		return nil, fmt.Errorf("find a time in %q: its consumers are existing durables, whose positions the server stores: reset them there: %w", name, errUnsafe)
	}
	at = at.UTC()
	c, err := b.js.CreateConsumer(ctx, t.stream, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &at,
		AckPolicy:   jetstream.AckNonePolicy,
		HeadersOnly: true, InactiveThreshold: findFor, MemoryStorage: true, Replicas: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("find a time in %q: %w", name, b.orUnavailable(err))
	}
	first := int64(c.CachedInfo().Delivered.Stream) + 1
	var out []broker.Place
	for i := range t.partitions {
		out = append(out, broker.Place{Partition: broker.Partition{Name: feed.Partition(name, i),
			Clean: true, Origin: t.created}, Position: first})
	}
	return out, nil
}
