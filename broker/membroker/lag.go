package membroker

import (
	"context"
	"slices"
)

// Lag counts the messages from the acknowledged positions of the group to the ends of the partitions.
func (b *Broker) Lag(_ context.Context, group string, topics ...string) (map[string]int64, error) {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	out := map[string]int64{}
	g := b.c.groups[group]
	if g == nil {
		return out, nil
	}
	for _, c := range g.cursors {
		if slices.Contains(topics, c.topic.name) && b.c.topics[c.topic.name] == c.topic {
			out[c.topic.name] += c.partition.base + int64(len(c.partition.log)) - c.acked
		}
	}
	return out, nil
}
