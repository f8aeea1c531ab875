package broker

import (
	"context"
	"time"
)

// Keeper tells how long it keeps messages.
type Keeper interface {
	// Keeps tells for how long, at most, each of topics keeps a message after it was published; Forever, if
	// none is ever removed. Those of which it cannot be told (they are not there, or nobody may ask) are left
	// out. An error is an outage.
	Keeps(ctx context.Context, topics ...string) (map[string]time.Duration, error)
}

// Forever is how long a topic keeps messages that removes none.
const Forever = time.Duration(1<<63 - 1)
