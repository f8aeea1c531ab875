package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/broker"
)

// CheckTopics returns a line for each topic that does not exist.
func (b *Broker) CheckTopics(ctx context.Context, topics ...string) (missing []string, err error) {
	all, err := look(ctx, b.cl, topics)
	if err != nil {
		return nil, err
	}
	for _, name := range topics {
		switch t := all[name]; {
		case errors.Is(t.Err, broker.ErrNoTopic):
			missing = append(missing, t.Err.Error())
		case t.Err != nil:
			return nil, withRight(orUnavailable(t.Err), "DESCRIBE", "it")
		}
	}
	return missing, nil
}

// CheckReading returns the reason why a consumer cannot read the topic, or nil. The error names the missing
// right.
func (b *Broker) CheckReading(ctx context.Context, topic string) error {
	all, err := look(ctx, b.cl, []string{topic})
	if err != nil {
		return err
	}
	return withRight(all[topic].reading(topic), "READ", "the topic")
}

// awaitTopics waits until new topics are usable. The brokers receive the metadata a moment after the
// creation.
func (b *Broker) awaitTopics(ctx context.Context, topics []string) error {
	for {
		there, err := look(ctx, b.cl, topics)
		if err != nil {
			return err
		}
		ready := true
		for _, t := range topics {
			ready = ready && there[t].Err == nil
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

// Capabilities returns the capabilities of this driver.
func Capabilities() broker.Capabilities {
	return broker.Capabilities{Partition: "a partition", Position: "the offset",
		Incarnation: "the cluster's id",
		LateGroup:   "oldest message, newest, or a time", Acks: "all up to it", LargestKiB: 976, Rewinds: true,
		Checks: true, Keeps: true, Owners: true}
}

// Topics returns the IDs of topics. Before Kafka 2.8 topics have no ID, so Topics returns the same ID for all
// topics.
func (b *Broker) Topics(ctx context.Context, names ...string) (broker.Topics, error) {
	there, err := look(ctx, b.cl, names)
	if err != nil {
		return nil, err
	}
	ids := broker.Topics{}
	for name, t := range there {
		if t.Err == nil {
			ids[name] = t.ID
		}
	}
	return ids, nil
}
