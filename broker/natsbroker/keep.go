package natsbroker

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/perkey"
)

// Keeps returns the max_age of the streams of topics.
func (b *Broker) Keeps(ctx context.Context, topics ...string) (map[string]time.Duration, error) {
	out := map[string]time.Duration{}
	for _, name := range topics {
		var stream jetstream.Stream
		err := b.askInTime(ctx, name, func(ctx context.Context) (err error) {
			stream, err = b.streamOf(ctx, name)
			return err
		})
		switch {
		case err == nil && stream.CachedInfo().Config.MaxAge > 0:
			out[name] = stream.CachedInfo().Config.MaxAge
		case err == nil:
			out[name] = broker.Forever
		case kindOf(err) == perkey.Outage:
			return nil, err
		}
	}
	return out, nil
}

// streamOf returns the stream of a topic. It does not check the settings of the stream.
func (b *Broker) streamOf(ctx context.Context, name string) (jetstream.Stream, error) {
	stream := token(name)
	if shape, there := b.shapes[name]; there {
		stream = shape.Stream
	}
	s, err := b.js.Stream(ctx, stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrInvalidStreamName) {
		return nil, errors.Join(err, broker.ErrNoTopic)
	}
	return s, b.orUnavailable(err)
}
