package kafkabroker

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker/internal/fault"
)

// settings asks for settings of topics, by topic and name. Topics that are not there, or that nobody may ask
// about, are left out.
func settings(ctx context.Context, cl *kgo.Client, topics []string, names ...string) (map[string]map[string]string, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, t := range topics {
		one := kmsg.NewDescribeConfigsRequestResource()
		one.ResourceType, one.ResourceName, one.ConfigNames = kmsg.ConfigResourceTypeTopic, t, names
		req.Resources = append(req.Resources, one)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, fmt.Errorf("ask for settings of topics: %w", fault.OrAway(err))
	}
	out := map[string]map[string]string{}
	for _, r := range resp.Resources {
		if kerr.ErrorForCode(r.ErrorCode) != nil {
			continue
		}
		out[r.ResourceName] = map[string]string{}
		for _, c := range r.Configs {
			out[r.ResourceName][c.Name] = text(c.Value)
		}
	}
	return out, nil
}

// Keeps is retention.ms and segment.ms together: a segment is removed when its last message is old enough,
// and its first may be as much older as it took to fill. A compacted topic keeps the last message of each
// key.
func (b *Broker) Keeps(ctx context.Context, topics ...string) (map[string]time.Duration, error) {
	out := map[string]time.Duration{}
	all, err := settings(ctx, b.cl, topics, "retention.ms", "segment.ms", "cleanup.policy")
	if err != nil {
		_, err = look(ctx, b.cl, topics) // what speaks Kafka's protocol need not know this question
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
	case retention < 0 || !strings.Contains(is["cleanup.policy"], "delete") || retention > most-min(segment, most):
		return broker.Forever, true
	}
	return time.Duration(retention+segment) * time.Millisecond, true
}
