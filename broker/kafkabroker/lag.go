package kafkabroker

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Lag returns the number of offsets from the committed offsets to the ends of the partitions. In a partition
// without a committed offset, it counts from the beginning. A transaction marker counts as a message until
// all messages before it are acknowledged.
func (b *Broker) Lag(ctx context.Context, group string, topics ...string) (map[string]int64, error) {
	out := map[string]int64{}
	committed, err := within(ctx, func() (kadm.OffsetResponses, error) {
		return b.adm.FetchOffsets(ctx, group)
	})
	if errors.Is(err, kerr.GroupIDNotFound) {
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the committed offsets of group %q: %w", group,
			withRight(orUnavailable(err), "READ", "the group"))
	}
	var known []string
	for _, topic := range topics {
		for _, p := range committed[topic] {
			if p.Err == nil && p.At >= 0 {
				known = append(known, topic)
				break
			}
		}
	}
	if len(known) == 0 {
		return out, nil
	}
	ends, err := within(ctx, func() (kadm.ListedOffsets, error) {
		return b.adm.ListEndOffsets(ctx, known...)
	})
	if err != nil {
		return nil, fmt.Errorf("read the ends of partitions: %w",
			withRight(orUnavailable(err), "DESCRIBE", "the topics"))
	}
	starts, err := within(ctx, func() (kadm.ListedOffsets, error) {
		return b.adm.ListStartOffsets(ctx, known...)
	})
	if err != nil {
		return nil, fmt.Errorf("read the beginnings of partitions: %w",
			withRight(orUnavailable(err), "DESCRIBE", "the topics"))
	}
	ends.Each(func(end kadm.ListedOffset) {
		start, there := starts.Lookup(end.Topic, end.Partition)
		if end.Err != nil || !there || start.Err != nil {
			return
		}
		at, _ := committed.Lookup(end.Topic, end.Partition)
		out[end.Topic] += max(0, end.Offset-max(at.At, start.Offset))
	})
	return out, nil
}
