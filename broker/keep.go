package broker

import (
	"context"
	"time"
)

// Keeper reports the retention of topics.
type Keeper interface {
	// Keeps returns the maximum age at which each topic removes messages; Forever if it removes none. It
	// omits topics that do not exist, or that the login may not inspect. An error is an outage.
	Keeps(ctx context.Context, topics ...string) (map[string]time.Duration, error)
}

// Forever is the retention of a topic that removes no messages.
const Forever = time.Duration(1<<63 - 1)
