package kafkabroker

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/skald-go/skald/broker"
)

// Keeps returns retention.ms plus segment.ms. Kafka removes a whole segment when its last message is older
// than retention.ms. The first message of the segment may be older by up to segment.ms. A topic that is only
// compacted keeps the last message of each key, so Keeps returns Forever.
func (b *Broker) Keeps(ctx context.Context, topics ...string) (map[string]time.Duration, error) {
	out := map[string]time.Duration{}
	all, err := settings(ctx, b.cl, topics, "retention.ms", "segment.ms", "cleanup.policy")
	if err != nil {
		_, err = look(ctx, b.cl, topics) // a compatible broker may not support this request
		return out, err
	}
	for topic, is := range all {
		if d, ok := keeps(is); ok {
			out[topic] = d
		}
	}
	return out, nil
}

func keeps(is map[string]string) (time.Duration, bool) {
	retention, err := strconv.ParseInt(is["retention.ms"], 10, 64)
	segment, err2 := strconv.ParseInt(is["segment.ms"], 10, 64)
	const most = int64(broker.Forever / time.Millisecond)
	switch {
	case err != nil || err2 != nil:
		return 0, false
	case retention < 0 || !strings.Contains(is["cleanup.policy"], "delete") ||
		retention > most-min(segment, most):
		return broker.Forever, true
	}
	return time.Duration(retention+segment) * time.Millisecond, true
}
