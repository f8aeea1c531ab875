package membroker

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

// Keeps is not supported: messages go by number, not by age.
func (*Broker) Keeps(context.Context, ...string) (map[string]time.Duration, error) {
	return nil, fmt.Errorf("ask the broker in memory how long it keeps messages: %w", broker.ErrUnsupported)
}

// Examine is not supported: there are no settings beside Options.
func (*Broker) Examine(context.Context, ...string) ([]skald.Finding, error) {
	return nil, fmt.Errorf("examine the broker in memory: %w", broker.ErrUnsupported)
}

// Adopt is not supported: a group belongs to the database of its members.
func (*Broker) Adopt(_ context.Context, g broker.Group, _ string) error {
	return fmt.Errorf("adopt group %q: the broker in memory keeps no owner of a group: %w", g.Name, broker.ErrUnsupported)
}
