package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/feed"
	"github.com/skald-go/skald/broker/internal/perkey"
)

const (
	defaultPartitions = 8
	maxPartitions     = 1024

	errUnclustered jetstream.ErrorCode = 10074 // more replicas than one, without a cluster
	errNoPeers     jetstream.ErrorCode = 10005 // more replicas than servers
)

var errName = errors.New("a name has 1 to 249 characters of A-Z a-z 0-9 . _ -")

// topic is the state of a topic's stream when it was last read.
type topic struct {
	name, stream string
	partitions   int
	created      string
	first, last  uint64
	shape        *Shape         // nil for a stream of MakeTopics
	typed        *regexp.Regexp // finds the type in a subject of the shape; see typeIn
}

// Stream returns the name of a topic's stream.
func Stream(topic string) string { return token(topic) }

func subject(stream string, partition int) string { return stream + "." + strconv.Itoa(partition) }

// look returns the state of a topic, or an error if it does not exist or is unusable.
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
		return topic{}, fmt.Errorf("read topic %q: %w", name, w.orUnavailable(err))
	}
	info := s.CachedInfo()
	t := topic{name: name, stream: info.Config.Name, partitions: len(info.Config.Subjects),
		first: info.State.FirstSeq, last: info.State.LastSeq, created: createdAt(info)}
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

// lookSoon works like look. If the stream of the topic does not answer although NATS does, the error wraps
// perkey.ErrSilent.
func (w *wire) lookSoon(ctx context.Context, name string) (t topic, err error) {
	err = w.askInTime(ctx, name, func(ctx context.Context) error {
		t, err = w.look(ctx, name)
		return err
	})
	return t, err
}

// askInTime calls the function ask for the stream of a topic. It waits for half of the remaining time, at
// most for patience. Without an answer, it reads the bucket. If NATS answers that request, the error wraps
// perkey.ErrSilent.
func (w *wire) askInTime(ctx context.Context, topic string, ask func(context.Context) error) error {
	most := patience
	if end, there := ctx.Deadline(); there {
		most = min(most, time.Until(end)/2)
	}
	short, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := ask(short)
	if err == nil || short.Err() == nil || ctx.Err() != nil {
		return err
	}
	ctx, cancel = context.WithTimeout(ctx, patience)
	defer cancel()
	if !w.answers(ctx) {
		return err
	}
	return fmt.Errorf("topic %q: %w", topic, perkey.ErrSilent)
}

// answers returns true if NATS answers a request that depends on no topic.
func (w *wire) answers(ctx context.Context) bool {
	kv, err := bucketOpen(ctx, w.js, w.orUnavailable)
	if err == nil {
		_, err = kv.Get(ctx, incarnation)
	}
	return err == nil || !errors.Is(w.orUnavailable(err), broker.ErrUnavailable)
}

// createdAt returns the creation time of a stream. It differs from that of an earlier stream with the same
// name.
func createdAt(info *jetstream.StreamInfo) string { return info.Created.UTC().Format(time.RFC3339Nano) }

// MakeTopics creates missing topics, and the bucket for groups. If partitions is 0, a topic gets 8.
func (b *Broker) MakeTopics(ctx context.Context, partitions int, topics ...string) error {
	n := or(partitions, defaultPartitions)
	if n > maxPartitions {
		return fmt.Errorf("create topics with %d partitions: use at most %d", n, maxPartitions)
	}
	for _, t := range topics {
		if !feed.OK(t) {
			return fmt.Errorf("create topic %q: %w", t, errName)
		}
	}
	if err := bucketMake(ctx, b.js, b.opts.Replicas); err != nil {
		return fmt.Errorf("create the bucket %q: %w", name, b.createError(err))
	}
	for _, t := range topics {
		if err := b.makeTopic(ctx, n, t); err != nil {
			return fmt.Errorf("create topic %q: %w", t, b.createError(err))
		}
	}
	return nil
}

// Topics returns the IDs of topics, which are the creation times of their streams.
func (b *Broker) Topics(ctx context.Context, names ...string) (broker.Topics, error) {
	type found struct {
		topic
		err error
	}
	all := make([]found, len(names)) // read in parallel, so that a silent stream does not delay the others
	var asking sync.WaitGroup
	for i, name := range names {
		asking.Go(func() { all[i].topic, all[i].err = b.lookSoon(ctx, name) })
	}
	asking.Wait()
	out := broker.Topics{}
	for i, f := range all {
		switch {
		case f.err == nil:
			out[names[i]] = f.created
		case kindOf(f.err) == perkey.Outage:
			return nil, f.err
		}
	}
	return out, nil
}

func (b *Broker) makeTopic(ctx context.Context, partitions int, name string) error {
	if _, shaped := b.shapes[name]; shaped {
		return nil // an existing stream of a shape
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
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process has just created it
		return nil
	}
	return err
}

// createError returns the error of a topic or bucket that was not created. If there are too few servers for
// the replicas, the setting is wrong, so the error is not an outage.
func (b *Broker) createError(err error) error {
	var answered *jetstream.APIError
	if errors.As(err, &answered) && slices.Contains([]jetstream.ErrorCode{errUnclustered, errNoPeers},
		answered.ErrorCode) {
		return fmt.Errorf("replicas=%d: NATS has too few servers for that, and %w: %w", b.opts.Replicas,
			errUnsafe, err)
	}
	return b.orUnavailable(err)
}

// CheckTopics returns a line for each stream that is missing or may lose messages, and for a missing bucket.
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

// bucket returns the bucket for groups.
func (b *Broker) bucket(ctx context.Context) (jetstream.KeyValue, error) {
	return bucketOpen(ctx, b.js, b.orUnavailable)
}

// Incarnation returns the random ID that MakeTopics stored in the bucket. JetStream loses the ID if it loses
// its data.
func (b *Broker) Incarnation(ctx context.Context) (string, error) {
	kv, err := b.bucket(ctx)
	if err != nil {
		return "", fmt.Errorf("read NATS's incarnation: %w", err)
	}
	e, err := kv.Get(ctx, incarnation)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return "",
			fmt.Errorf("read NATS's incarnation: the bucket %q has no %q, which MakeTopics writes: %w", name, incarnation, broker.ErrNoTopic)
	}
	if err != nil {
		return "", fmt.Errorf("read NATS's incarnation: %w", b.orUnavailable(err))
	}
	return string(e.Value()), nil
}
