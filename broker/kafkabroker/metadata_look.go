// This file asks Kafka what it knows of topics: whether they are there, their partitions and ids,
// their settings and limits, and what of those is doubtful.

package kafkabroker

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-go/skald/broker"
)

// found is a topic as Kafka tells it to whoever asks.
type found struct {
	Err        error // it cannot be used; nil if it can
	partitions int
	ID         string
}

// look asks Kafka about topics. Without a right to one of them, it alone has an error.
func look(ctx context.Context, cl *kgo.Client, topics []string) (map[string]found, error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, t := range topics {
		one := kmsg.NewMetadataRequestTopic()
		one.Topic = kmsg.StringPtr(t)
		req.Topics = append(req.Topics, one)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, fmt.Errorf("look up topics: %w", orAway(err))
	}
	out := map[string]found{}
	for _, t := range topics {
		out[t] = found{Err: fmt.Errorf("topic %q: %w", t, broker.ErrNoTopic)}
	}
	for _, t := range resp.Topics {
		if t.Topic != nil {
			out[*t.Topic] = foundAs(*t.Topic, t)
		}
	}
	return out, nil
}

func foundAs(name string, t kmsg.MetadataResponseTopic) found {
	switch err := kerr.ErrorForCode(t.ErrorCode); {
	case faultAny(err, kerr.UnknownTopicOrPartition, kerr.InvalidTopicException):
		return found{Err: fmt.Errorf("topic %q: %w", name, broker.ErrNoTopic)}
	case err != nil && !kerr.IsRetriable(err):
		return found{Err: fmt.Errorf("topic %q: %w", name, err)}
	case err != nil || len(t.Partitions) == 0:
		return found{Err: fmt.Errorf("topic %q is not ready: %w", name, kerr.LeaderNotAvailable)}
	}
	return found{partitions: len(t.Partitions), ID: topicID(t.TopicID)}
}

// topicID is an id as Kafka's own tools show it.
func topicID(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }
