package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/cloudevents"
)

// A Shape is a stream that a team has already, as a topic. MakeTopics does not make it. Without Durable the
// stream is one partition, in its own order, for each group. With it the group's instances share the work in
// no order.
type Shape struct {
	// Stream is its name.
	Stream string
	// Subject is what a message is published to, with {type} and {key} for those of the message:
	// "orders.{type}". Default: nothing is published to the topic.
	Subject string
	// Filter is which of the stream's subjects a group without Durable reads. Default: all.
	Filter string
	// Durable says that a group is the stream's pull consumer of the same name, which is there already and
	// may have other clients: each message goes to one of all instances, and comes again where it was not
	// acknowledged. One that loses messages in silence (by max_deliver, ack_policy, inactive_threshold …) is
	// refused. Default false.
	Durable bool
}

// parseShapes reads "topic:stream[:subject],…" of a URL; topic:stream* has durables.
func parseShapes(list string) (map[string]Shape, error) {
	out := map[string]Shape{}
	for one := range strings.SplitSeq(list, ",") {
		parts := strings.Split(one, ":")
		if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || strings.Trim(parts[1], "*") == "" {
			return nil, fmt.Errorf("shapes is topic:stream[:subject],…, not %q", list)
		}
		name, durable := strings.CutSuffix(parts[1], "*")
		s := Shape{Stream: name, Durable: durable}
		if len(parts) == 3 {
			s.Subject = parts[2]
		}
		out[parts[0]] = s
	}
	return out, nil
}

// lookShaped asks NATS about a stream of others.
func (w *wire) lookShaped(ctx context.Context, name string, shape Shape) (topic, error) {
	s, err := w.js.Stream(ctx, shape.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrInvalidStreamName) {
		return topic{}, fmt.Errorf("topic %q: stream %s: %w", name, shape.Stream, broker.ErrNoTopic)
	}
	if err != nil {
		return topic{}, fmt.Errorf("look up topic %q: %w", name, w.orAway(err))
	}
	info := s.CachedInfo()
	config := info.Config
	if shape.Durable && config.Retention != jetstream.LimitsPolicy {
		// its acknowledgements are the group's own
		config.Retention = jetstream.LimitsPolicy
	}
	if bad := ofStream(&config, w.retain); bad != "" {
		return topic{}, fmt.Errorf("topic %q: stream %s has %s: %w", name, shape.Stream, bad,
			errUnsafe)
	}
	return topic{name: name, stream: shape.Stream, partitions: 1, first: info.State.FirstSeq,
		last: info.State.LastSeq, created: born(info), shape: &shape, typed: typeIn(shape.Subject)}, nil
}

// typeIn matches the subjects of a shape, with the type as its first group; nil: they have none. A key next
// to it is one token, and a type may have several.
func typeIn(subject string) *regexp.Regexp {
	if !strings.Contains(subject, "{type}") {
		return nil
	}
	pattern := regexp.QuoteMeta(subject)
	pattern = strings.Replace(pattern, `\{type\}`, `(.+)`, 1)
	pattern = strings.NewReplacer(`\{type\}`, `.+`, `\{key\}`, `[^.]+`).Replace(pattern)
	return regexp.MustCompile("^" + pattern + "$") // of quoted text it always compiles
}

// routed reads the type of a message without one from its subject. The handler gets a subject that Skald
// would not publish the message to in a header.
func (t *topic) routed(m *skald.Message, subject string) {
	if t.shape == nil {
		return
	}
	if found := t.matches(subject); found != nil {
		cloudevents.TypeFromRoute(m, found[1])
	}
	if own, err := t.target(0, m.Type, m.Key); err == nil && own == subject {
		subject = ""
	}
	cloudevents.NoteRoute(m, subject)
}

func (t *topic) matches(subject string) []string {
	if t.typed == nil {
		return nil
	}
	return t.typed.FindStringSubmatch(subject)
}

// target is the subject of a message for a partition of t.
func (t *topic) target(partition int, typ string, key []byte) (string, error) {
	if t.shape == nil {
		return subject(t.stream, partition), nil
	}
	if t.shape.Subject == "" {
		return "", fmt.Errorf("publish to %q: its shape has no subject: it is only read: %w", t.name,
			cloudevents.ErrCannotCarry)
	}
	out := strings.NewReplacer("{type}", typ, "{key}", string(key)).Replace(t.shape.Subject)
	odd := func(c rune) bool { return c <= ' ' || c == 0x7f || c == '*' || c == '>' }
	if strings.ContainsFunc(out, odd) || strings.HasPrefix(out, ".") || strings.HasSuffix(out, ".") ||
		strings.Contains(out, "..") {
		return "", fmt.Errorf("publish to %q: %q is no subject: %w", t.name, out, cloudevents.ErrCannotCarry)
	}
	return out, nil
}

// reads is what a partition of t is read by.
func (t *topic) reads(partition int) []string {
	switch {
	case t.shape == nil:
		return []string{subject(t.stream, partition)}
	case t.shape.Filter == "":
		return nil
	}
	return []string{t.shape.Filter}
}
