package membroker

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

// Keeps returns an error, because retention counts messages and has no time limit.
func (*Broker) Keeps(context.Context, ...string) (map[string]time.Duration, error) {
	return nil, fmt.Errorf("retention of the in-memory broker: %w", broker.ErrUnsupported)
}

// Examine returns an error, because the broker has no settings except Options.
func (*Broker) Examine(context.Context, ...string) ([]skald.Finding, error) {
	return nil, fmt.Errorf("examine the in-memory broker: %w", broker.ErrUnsupported)
}

// Adopt returns an error, because the broker does not store owners.
func (*Broker) Adopt(_ context.Context, g broker.Group, _ string) error {
	return fmt.Errorf("adopt group %q: the in-memory broker does not store owners: %w", g.Name, broker.ErrUnsupported)
}
