package rabbitbroker

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/broker"
)

// Find is not supported: what was acknowledged is gone.
func (*Broker) Find(_ context.Context, topic string, _ time.Time) ([]broker.Place, error) {
	return nil, fmt.Errorf("find a time in %q: RabbitMQ's queues cannot be read again: %w", topic,
		broker.ErrUnsupported)
}

// Keeps is not supported: a client cannot see the policies that remove messages.
func (*Broker) Keeps(context.Context, ...string) (map[string]time.Duration, error) {
	return nil, fmt.Errorf("ask RabbitMQ how long it keeps messages: %w", broker.ErrUnsupported)
}

// Adopt is not supported: a group belongs to the database of its members.
func (*Broker) Adopt(_ context.Context, g broker.Group, _ string) error {
	return fmt.Errorf("adopt group %q: RabbitMQ has no place for the owner of a group: %w", g.Name, broker.ErrUnsupported)
}
