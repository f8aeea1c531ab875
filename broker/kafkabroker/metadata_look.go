// This file reads metadata of topics: existence, partitions, IDs, settings and limits.

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

// found is the metadata of a topic.
type found struct {
	Err        error // the reason why the topic is unusable, or nil
	partitions int
	ID         string
	unreadable bool // the right to read the topic is missing; false if unknown
}

// reading returns the reason why a consumer cannot read the topic, or nil.
func (f found) reading(topic string) error {
	if f.Err == nil && f.unreadable {
		return fmt.Errorf("topic %q: %w", topic, kerr.TopicAuthorizationFailed)
	}
	return f.Err
}

// look requests the metadata of topics. If the right to a topic is missing, only the entry of that topic has
// an error.
func look(ctx context.Context, cl *kgo.Client, topics []string) (map[string]found, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeTopicAuthorizedOperations = true
	for _, t := range topics {
		one := kmsg.NewMetadataRequestTopic()
		one.Topic = kmsg.StringPtr(t)
		req.Topics = append(req.Topics, one)
	}
	resp, err := within(ctx, func() (*kmsg.MetadataResponse, error) { return req.RequestWith(ctx, cl) })
	if err != nil {
		return nil, fmt.Errorf("read metadata of topics: %w", orUnavailable(err))
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
	case isAny(err, kerr.UnknownTopicOrPartition, kerr.InvalidTopicException):
		return found{Err: fmt.Errorf("topic %q: %w", name, broker.ErrNoTopic)}
	case err != nil && !kerr.IsRetriable(err):
		return found{Err: fmt.Errorf("topic %q: %w", name, err)}
	case err != nil || len(t.Partitions) == 0:
		return found{Err: fmt.Errorf("topic %q is not ready: %w", name, kerr.LeaderNotAvailable)}
	}
	allowed, unset := t.AuthorizedOperations, kmsg.NewMetadataResponseTopic().AuthorizedOperations
	return found{partitions: len(t.Partitions), ID: topicID(t.TopicID), unreadable: allowed != unset &&
		allowed != 0 && allowed&(1<<kmsg.ACLOperationRead) == 0}
}

// topicID formats a topic ID like Kafka's tools.
func topicID(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }
