package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/broker"
)

// CheckTopics names those of topics that do not exist.
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
			return nil, lacking(orAway(t.Err), "DESCRIBE", "it")
		}
	}
	return missing, nil
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

// Capabilities of this driver.
func Capabilities() broker.Capabilities {
	return broker.Capabilities{Partition: "a partition", Position: "the offset",
		Incarnation: "the cluster's id",
		LateGroup:   "oldest message, newest, or a time", Acks: "up to here", LargestKiB: 976, Rewinds: true,
		Checks: true, Keeps: true, Owners: true}
}

// Topics tells the ids of topics. Kafka before 2.8 has none: all are the same there.
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
