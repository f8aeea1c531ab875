package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker/internal/fault"
)

// found is a topic as Kafka tells it to whoever asks.
type found struct {
	err        error // it cannot be used; nil if it can
	partitions int
	id         string
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
		return nil, fmt.Errorf("look up topics: %w", fault.OrAway(err))
	}
	out := map[string]found{}
	for _, t := range topics {
		out[t] = found{err: fmt.Errorf("topic %q: %w", t, broker.ErrNoTopic)}
	}
	for _, t := range resp.Topics {
		if t.Topic != nil {
			out[*t.Topic] = foundAs(*t.Topic, t)
		}
	}
	return out, nil
}

// CheckTopics names those of topics that do not exist.
func (b *Broker) CheckTopics(ctx context.Context, topics ...string) (missing []string, err error) {
	all, err := look(ctx, b.cl, topics)
	if err != nil {
		return nil, err
	}
	for _, name := range topics {
		switch t := all[name]; {
		case errors.Is(t.err, broker.ErrNoTopic):
			missing = append(missing, t.err.Error())
		case t.err != nil:
			return nil, fault.Lacking(fault.OrAway(t.err), "DESCRIBE", "it")
		}
	}
	return missing, nil
}

func foundAs(name string, t kmsg.MetadataResponseTopic) found {
	switch err := kerr.ErrorForCode(t.ErrorCode); {
	case fault.Any(err, kerr.UnknownTopicOrPartition, kerr.InvalidTopicException):
		return found{err: fmt.Errorf("topic %q: %w", name, broker.ErrNoTopic)}
	case err != nil && !kerr.IsRetriable(err):
		return found{err: fmt.Errorf("topic %q: %w", name, err)}
	case err != nil || len(t.Partitions) == 0:
		return found{err: fmt.Errorf("topic %q is not ready: %w", name, kerr.LeaderNotAvailable)}
	}
	return found{partitions: len(t.Partitions), id: topicID(t.TopicID)}
}

const largestSetting = "max.message.bytes"

// maxBytes asks how large a batch of each topic may be. Without the right to ask, the usual limit holds.
func maxBytes(ctx context.Context, cl *kgo.Client, topics []string) map[string]int {
	out := map[string]int{}
	all, err := settings(ctx, cl, topics, largestSetting)
	if err != nil {
		return out
	}
	for topic, is := range all {
		if n, err := strconv.Atoi(is[largestSetting]); err == nil && n > 0 {
			out[topic] = min(n, usualLimit*16)
		}
	}
	return out
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// awaitTopics waits until the brokers know what was made: Kafka answers a little before they do.
func (b *Broker) awaitTopics(ctx context.Context, topics []string) error {
	for {
		there, err := look(ctx, b.cl, topics)
		if err != nil {
			return err
		}
		ready := true
		for _, t := range topics {
			ready = ready && there[t].err == nil
		}
		if ready {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for new topics: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Capabilities of this driver.
func Capabilities() broker.Capabilities {
	return broker.Capabilities{Partition: "a partition", Position: "the offset", Incarnation: "the cluster's id",
		LateGroup: "oldest message, newest, or a time", Acks: "up to here", LargestKiB: 976, Rewinds: true, Checks: true, Keeps: true}
}
