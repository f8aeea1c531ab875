package broker

import (
	"context"
	"time"
)

// Keeper reports the retention of topics.
type Keeper interface {
	// Keeps returns how long, at most, each topic keeps a message after it was published; Forever if it
	// removes none. Topics that do not exist, or that the login may not inspect, are omitted. An error is
	// an outage.
	Keeps(ctx context.Context, topics ...string) (map[string]time.Duration, error)
}

// Forever is the retention of a topic that removes no messages.
const Forever = time.Duration(1<<63 - 1)
