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

// Shape describes an existing stream that is used as a topic. MakeTopics does not create it. Without Durable,
// the whole stream is one partition for each group. With Durable, the members of a group share its messages,
// without order.
type Shape struct {
	// Stream is the name of the stream.
	Stream string
	// Subject is the subject of published messages. {type} and {key} are replaced by those of the message, as
	// in "orders.{type}". If Subject is empty, messages cannot be published to the topic.
	Subject string
	// Filter is the filter of subjects that a group without Durable reads. Default: all subjects of the
	// stream.
	Filter string
	// Durable means that a group is an existing pull consumer of the stream, with the name of the group.
	// Other clients may use the same consumer. NATS delivers each message to one client, and delivers it
	// again if no acknowledgement arrives. The driver refuses a consumer that may lose messages without an
	// error, for example by max_deliver, ack_policy or inactive_threshold. Default false.
	Durable bool
}

// parseShapes parses the option shapes of a URL: "topic:stream[:subject],…". A star after the stream sets
// Durable.
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

// lookShaped returns the state of a topic that is an existing stream, or an error if the stream is unusable.
func (w *wire) lookShaped(ctx context.Context, name string, shape Shape) (topic, error) {
	s, err := w.js.Stream(ctx, shape.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrInvalidStreamName) {
		return topic{}, fmt.Errorf("topic %q: stream %s: %w", name, shape.Stream, broker.ErrNoTopic)
	}
	if err != nil {
		return topic{}, fmt.Errorf("read topic %q: %w", name, w.orUnavailable(err))
	}
	info := s.CachedInfo()
	config := info.Config
	if shape.Durable && config.Retention != jetstream.LimitsPolicy {
		// With another retention an acknowledgement may remove messages, but only messages of this consumer.
		config.Retention = jetstream.LimitsPolicy
	}
	if bad := ofStream(&config, w.retain); bad != "" {
		return topic{}, fmt.Errorf("topic %q: stream %s has %s: %w", name, shape.Stream, bad,
			errUnsafe)
	}
	return topic{name: name, stream: shape.Stream, partitions: 1, first: info.State.FirstSeq,
		last: info.State.LastSeq, created: createdAt(info), shape: &shape, typed: typeIn(shape.Subject)}, nil
}

// typeIn returns an expression that matches the subjects of a shape. Its first group is the type. It returns
// nil if subjects do not contain the type. A key is one token of the subject; a type may have several tokens.
func typeIn(subject string) *regexp.Regexp {
	if !strings.Contains(subject, "{type}") {
		return nil
	}
	pattern := regexp.QuoteMeta(subject)
	pattern = strings.Replace(pattern, `\{type\}`, `(.+)`, 1)
	pattern = strings.NewReplacer(`\{type\}`, `.+`, `\{key\}`, `[^.]+`).Replace(pattern)
	return regexp.MustCompile("^" + pattern + "$") // quoted text always compiles
}

// routed sets the missing type of a message from its subject. If Skald would publish the message to another
// subject, routed adds broker.RouteHeader with the original subject.
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

// target returns the subject of a message for a partition of t.
func (t *topic) target(partition int, typ string, key []byte) (string, error) {
	if t.shape == nil {
		return subject(t.stream, partition), nil
	}
	if t.shape.Subject == "" {
		return "", fmt.Errorf("publish to %q: its shape has no subject, so the topic is only read: %w", t.name,
			cloudevents.ErrCannotCarry)
	}
	out := strings.NewReplacer("{type}", typ, "{key}", string(key)).Replace(t.shape.Subject)
	odd := func(c rune) bool { return c <= ' ' || c == 0x7f || c == '*' || c == '>' }
	if strings.ContainsFunc(out, odd) || strings.HasPrefix(out, ".") || strings.HasSuffix(out, ".") ||
		strings.Contains(out, "..") {
		return "", fmt.Errorf("publish to %q: %q is not a valid subject: %w",
			t.name, out, cloudevents.ErrCannotCarry)
	}
	return out, nil
}

// readSubjects returns the subjects that a reader of a partition of t must request. Nil means all subjects.
func (t *topic) readSubjects(partition int) []string {
	switch {
	case t.shape == nil:
		return []string{subject(t.stream, partition)}
	case t.shape.Filter == "":
		return nil
	}
	return []string{t.shape.Filter}
}
