package inbox

import (
	"context"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/telemetry"
)

// lag tells how much waits at the broker for this consumer. Others of its database may have another broker: a
// relay, or their own processes, report theirs.
func (in *Inbox[TTx]) lag(ctx context.Context, consumer string, topics []string) (map[string]int64, error) {
	b, ok := in.bus.(broker.Lagger)
	if !ok || consumer != in.group {
		return nil, telemetry.ErrNotMine
	}
	return lag(ctx, b, consumer, topics...)
}
