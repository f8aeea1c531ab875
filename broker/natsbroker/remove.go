package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/feed"
)

// RemoveTopics deletes the streams of topics, with their consumers. The map creationTimes has the creation
// time of each topic; a stream with another creation time was recreated, and stays. Missing topics are no
// error.
func (b *Broker) RemoveTopics(ctx context.Context, creationTimes map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(creationTimes)) {
		s, err := b.js.Stream(ctx, token(name))
		if err == nil && createdAt(s.CachedInfo()) == creationTimes[name] {
			err = b.js.DeleteStream(ctx, token(name))
		}
		if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("remove topic %q: %w", name, b.orUnavailable(err))
		}
	}
	return nil
}

// Used returns the topics that have or had a message.
func (b *Broker) Used(ctx context.Context, topics ...string) (used []string, err error) {
	for _, name := range topics {
		switch s, err := b.js.Stream(ctx, token(name)); {
		case errors.Is(err, jetstream.ErrStreamNotFound):
		case err != nil:
			return nil, fmt.Errorf("read topic %q: %w", name, b.orUnavailable(err))
		case s.CachedInfo().State.LastSeq > 0:
			used = append(used, name)
		}
	}
	return used, nil
}

// GroupTopics returns the topics for which a group has a stored position.
func (b *Broker) GroupTopics(ctx context.Context, group string) (topics []string, err error) {
	rows, err := b.keys(ctx, partitionsOf(group))
	if err != nil {
		return nil, err
	}
	for _, key := range rows {
		topic := topicOf(key)
		if !slices.Contains(topics, topic) {
			topics = append(topics, topic)
		}
	}
	slices.Sort(topics)
	return topics, nil
}

// keys returns the keys of the bucket that match filter. It returns none if there is no bucket.
func (b *Broker) keys(ctx context.Context, filter string) (out []string, err error) {
	kv, err := b.bucket(ctx)
	if errors.Is(err, broker.ErrNoTopic) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if out, err = keys(ctx, kv, filter); err != nil {
		return nil, fmt.Errorf("list keys of the bucket %q: %w", name, b.orUnavailable(err))
	}
	return out, nil
}

// RemoveGroup deletes the rows of a group. Before that, it waits until its members have left or are dead, or
// until ctx ends. A missing group is no error.
func (b *Broker) RemoveGroup(ctx context.Context, group string) error {
	if !feed.OK(group) {
		return fmt.Errorf("remove group %q: %w", group, errName)
	}
	prefix := memberKey(group, "")
	members, err := b.keys(ctx, prefix+"*")
	if err != nil {
		return fmt.Errorf("remove group %q: %w", group, err)
	}
	for _, key := range members {
		kv, err := b.bucket(ctx)
		if err == nil {
			err = awaitGone(ctx, kv, key, b.orUnavailable)
		}
		if err != nil {
			return fmt.Errorf("remove group %q: member %s: %w", group, strings.TrimPrefix(key, prefix), err)
		}
	}
	s, err := b.js.Stream(ctx, bucketStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	for _, key := range []string{prefix + "*", partitionsOf(group), ownerKey(group)} {
		if err == nil {
			err = s.Purge(ctx, jetstream.WithPurgeSubject(subjects+key))
		}
	}
	if err != nil {
		return fmt.Errorf("remove group %q: %w", group, b.orUnavailable(err))
	}
	return nil
}
