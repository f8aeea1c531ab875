package kafkabroker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/skald-go/skald"
)

// Examine checks the replicas and the settings of topics.
func (b *Broker) Examine(ctx context.Context, topics ...string) ([]skald.Finding, error) {
	out := []skald.Finding{{Name: "acks", Grade: skald.Fine,
		Observed: "all: a message counts as published once min.insync.replicas have it"}}
	if len(topics) == 0 {
		return out, nil
	}
	listed, err := within(ctx, func() (kadm.TopicDetails, error) {
		return b.adm.ListTopics(ctx, topics...)
	})
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", orUnavailable(err))
	}
	found, err := findings(ctx, b.cl, topics, listed)
	if err != nil {
		return nil, err
	}
	return append(out, found...), nil
}
