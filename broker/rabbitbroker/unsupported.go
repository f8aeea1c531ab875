package rabbitbroker

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/broker"
)

// Find returns an error, because RabbitMQ deletes acknowledged messages.
func (*Broker) Find(_ context.Context, topic string, _ time.Time) ([]broker.Place, error) {
	return nil, fmt.Errorf("find a time in %q: RabbitMQ's queues cannot be read again: %w", topic,
		broker.ErrUnsupported)
}

// Keeps returns an error, because clients cannot read the policies that remove messages.
func (*Broker) Keeps(context.Context, ...string) (map[string]time.Duration, error) {
	return nil, fmt.Errorf("read RabbitMQ's retention: %w", broker.ErrUnsupported)
}

// Adopt returns an error, because RabbitMQ stores no owner of a group.
func (*Broker) Adopt(_ context.Context, g broker.Group, _ string) error {
	return fmt.Errorf("adopt group %q: RabbitMQ does not store the owner of a group: %w", g.Name, broker.ErrUnsupported)
}
