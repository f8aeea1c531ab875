package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/feed"
	"github.com/skald-go/skald/broker/internal/perkey"
)

const (
	defaultPartitions = 8
	maxPartitions     = 1024

	errUnclustered jetstream.ErrorCode = 10074 // one server, more replicas
	errNoPeers     jetstream.ErrorCode = 10005
)

var errName = errors.New("a name is 1 to 249 of A-Z a-z 0-9 . _ -")

// topic is a stream that was looked at.
type topic struct {
	name, stream string
	partitions   int
	created      string
	first, last  uint64
	shape        *Shape         // nil: a stream as MakeTopics makes it
	typed        *regexp.Regexp // finds the type in a subject of the shape; nil: the subject has none
}

// Stream is the name of a topic's stream.
func Stream(topic string) string { return token(topic) }

func subject(stream string, partition int) string { return stream + "." + strconv.Itoa(partition) }

// look asks NATS about a topic.
func (w *wire) look(ctx context.Context, name string) (topic, error) {
	if !feed.OK(name) {
		return topic{}, fmt.Errorf("topic %q: %w: %w", name, errName, broker.ErrNoTopic)
	}
	if shape, there := w.shapes[name]; there {
		return w.lookShaped(ctx, name, shape)
	}
	s, err := w.js.Stream(ctx, token(name))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return topic{}, fmt.Errorf("topic %q: stream %s: %w", name, token(name), broker.ErrNoTopic)
	}
	if err != nil {
		return topic{}, fmt.Errorf("look up topic %q: %w", name, w.orAway(err))
	}
	info := s.CachedInfo()
	t := topic{name: name, stream: info.Config.Name, partitions: len(info.Config.Subjects),
		first: info.State.FirstSeq, last: info.State.LastSeq, created: born(info)}
	for i := range t.partitions {
		if !slices.Contains(info.Config.Subjects, subject(t.stream, i)) {
			t.partitions = 0
			break
		}
	}
	if t.partitions == 0 {
		return topic{}, fmt.Errorf("topic %q: the subjects of stream %s are not %s, %s and so on: %w",
			name, t.stream, subject(t.stream, 0), subject(t.stream, 1), errUnsafe)
	}
	if bad := ofStream(&info.Config, w.retain); bad != "" {
		return topic{}, fmt.Errorf("topic %q: stream %s has %s: %w", name, t.stream, bad, errUnsafe)
	}
	return t, nil
}

// born is what tells a stream from another of its name.
func born(info *jetstream.StreamInfo) string { return info.Created.UTC().Format(time.RFC3339Nano) }

// MakeTopics makes those of topics that do not exist, and the bucket of groups. With partitions 0 a topic
// gets 8.
func (b *Broker) MakeTopics(ctx context.Context, partitions int, topics ...string) error {
	n := or(partitions, defaultPartitions)
	if n > maxPartitions {
		return fmt.Errorf("make topics with %d partitions: at most %d", n, maxPartitions)
	}
	for _, t := range topics {
		if !feed.OK(t) {
			return fmt.Errorf("make topic %q: %w", t, errName)
		}
	}
	if err := bucketMake(ctx, b.js, b.opts.Replicas); err != nil {
		return fmt.Errorf("make the bucket %q: %w", name, b.unmade(err))
	}
	for _, t := range topics {
		if err := b.makeTopic(ctx, n, t); err != nil {
			return fmt.Errorf("make topic %q: %w", t, b.unmade(err))
		}
	}
	return nil
}

// Topics tells when topics were made: that is their id.
func (b *Broker) Topics(ctx context.Context, names ...string) (broker.Topics, error) {
	out := broker.Topics{}
	for _, name := range names {
		switch t, err := b.look(ctx, name); {
		case err == nil:
			out[name] = t.created
		case kindOf(err) == perkey.Outage:
			return nil, err
		}
	}
	return out, nil
}

func (b *Broker) makeTopic(ctx context.Context, partitions int, name string) error {
	if _, shaped := b.shapes[name]; shaped {
		return nil // it is others'
	}
	_, err := b.js.Stream(ctx, token(name))
	if err == nil || !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	c := settingsStream(token(name), "Skald topic "+name, b.opts.Retain, b.opts.Replicas)
	for i := range partitions {
		c.Subjects = append(c.Subjects, subject(c.Name, i))
	}
	_, err = b.js.CreateStream(ctx, c)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // a rival's, a moment ago
		return nil
	}
	return err
}

// unmade says why nothing was made. Too few servers for so many replicas is a setting, not an outage.
func (b *Broker) unmade(err error) error {
	var answered *jetstream.APIError
	if errors.As(err, &answered) && slices.Contains([]jetstream.ErrorCode{errUnclustered, errNoPeers},
		answered.ErrorCode) {
		return fmt.Errorf("replicas=%d: NATS has too few servers for that, and %w: %w", b.opts.Replicas,
			errUnsafe, err)
	}
	return b.orAway(err)
}

// CheckTopics names what is missing, streams and the bucket, and streams with a setting that loses messages.
func (b *Broker) CheckTopics(ctx context.Context, topics ...string) (missing []string, err error) {
	_, err = b.Incarnation(ctx)
	for i := range len(topics) + 1 {
		switch {
		case errors.Is(err, broker.ErrNoTopic), errors.Is(err, errUnsafe):
			missing = append(missing, err.Error())
		case err != nil:
			return nil, fmt.Errorf("check topics: %w", err)
		}
		if i < len(topics) {
			_, err = b.look(ctx, topics[i])
		}
	}
	return missing, nil
}

// bucket is where groups live.
func (b *Broker) bucket(ctx context.Context) (jetstream.KeyValue, error) {
	return bucketOpen(ctx, b.js, b.orAway)
}

// Incarnation is a name that was drawn when the bucket was made: where JetStream's files are lost, so is it.
func (b *Broker) Incarnation(ctx context.Context) (string, error) {
	kv, err := b.bucket(ctx)
	if err != nil {
		return "", fmt.Errorf("ask NATS for its incarnation: %w", err)
	}
	e, err := kv.Get(ctx, incarnation)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return "",
			fmt.Errorf("ask NATS for its incarnation: the bucket %q has no %q: make topics again, which writes it: %w", name, incarnation, broker.ErrNoTopic)
	}
	if err != nil {
		return "", fmt.Errorf("ask NATS for its incarnation: %w", b.orAway(err))
	}
	return string(e.Value()), nil
}
