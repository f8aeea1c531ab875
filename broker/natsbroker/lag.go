package natsbroker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald/broker"
)

// Lag counts the messages after the stored position of each partition of the group. For a durable consumer it
// counts pending and unacknowledged messages.
func (b *Broker) Lag(ctx context.Context, group string, topics ...string) (map[string]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, b.opts.Patience)
	defer cancel()
	out := map[string]int64{}
	for _, name := range topics {
		t, err := b.look(ctx, name)
		if errors.Is(err, broker.ErrNoTopic) {
			continue
		}
		var n int64
		var known bool
		if err == nil {
			n, known, err = b.lagOf(ctx, group, t)
		}
		if err != nil {
			return nil, fmt.Errorf("read the lag of %q for group %q: %w", name, group, b.orUnavailable(err))
		}
		if known {
			out[name] = n
		}
	}
	return out, nil
}

func (b *Broker) lagOf(ctx context.Context, groupName string, t topic) (n int64, known bool, err error) {
	if t.shape != nil && t.shape.Durable {
		c, err := b.js.Consumer(ctx, t.stream, groupName)
		switch {
		case errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, jetstream.ErrConsumerDoesNotExist):
			return 0, false, nil
		case err != nil:
			return 0, false, err
		}
		info := c.CachedInfo()
		return int64(info.NumPending) + int64(info.NumAckPending), true, nil
	}
	kv, err := b.js.KeyValue(ctx, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	g := group{groupName: groupName}
	for partition := range t.partitions {
		e, err := kv.Get(ctx, g.partitionKey(t, partition))
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			continue
		}
		var r row
		if err == nil {
			err = json.Unmarshal(e.Value(), &r)
		}
		if err != nil {
			return 0, false, err
		}
		if r.Stream != t.created { // the row belongs to a deleted stream
			continue
		}
		behind, err := b.countBehind(ctx, t, partition, r.Position)
		if err != nil {
			return 0, false, err
		}
		n, known = n+behind, true
	}
	return n, known, nil
}

// countBehind counts the messages of a partition after a position. It creates a temporary consumer, which
// reports this number.
func (b *Broker) countBehind(ctx context.Context, t topic, partition int, position uint64) (int64, error) {
	if position >= t.last {
		return 0, nil
	}
	c, err := b.js.CreateConsumer(ctx, t.stream, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: position + 1,
		AckPolicy:      jetstream.AckNonePolicy,
		FilterSubjects: t.readSubjects(partition), HeadersOnly: true, InactiveThreshold: findFor,
		MemoryStorage: true, Replicas: 1,
	})
	if err != nil {
		return 0, err
	}
	return int64(c.CachedInfo().NumPending), nil
}
