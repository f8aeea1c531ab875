package kafkabroker

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/cloudevents"
)

type kind int

const (
	failed  kind = iota // worth another try
	refused             // it will be answered the same next time
	outage              // nothing is known
)

// classify says what the error of one message means for its caller.
func classify(topic string, err error) (kind, error) {
	switch {
	case errors.Is(err, broker.ErrHeldBack):
		return failed, broker.ErrHeldBack
	case errors.Is(err, broker.ErrRecreated):
		return failed, fmt.Errorf("publish to %q: %w", topic, err)
	case isAny(err, broker.ErrClosed, kgo.ErrClientClosed, context.Canceled, context.DeadlineExceeded, kgo.ErrRecordTimeout, kgo.ErrRecordRetries):
		return outage, orAway(err)
	case isAny(err, cloudevents.ErrCannotCarry, broker.ErrNoTopic, kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTopicException,
		kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.PolicyViolation, kerr.InvalidTimestamp):
		return refused, fmt.Errorf("publish to %q: %w", topic, lacking(err, "WRITE", "the topic"))
	}
	var answered *kerr.Error
	if !errors.As(err, &answered) {
		return outage, orAway(err) // of the network
	}
	return failed, fmt.Errorf("publish to %q: %w", topic, err)
}

// orAway marks an error that did not come from Kafka itself, or that Kafka gives while it starts, elects or
// moves.
func orAway(err error) error {
	var answered *kerr.Error
	switch {
	case errors.Is(err, kgo.ErrClientClosed):
		return fmt.Errorf("%w: %w", broker.ErrClosed, err)
	case isAny(err, context.Canceled, broker.ErrClosed):
		return err
	case errors.As(err, &answered) && !answered.Retriable:
		return err
	}
	return fmt.Errorf("%w: %w", broker.ErrAway, err)
}

// unmade says why a topic was not made. A cluster that starts has too few brokers for its own replication
// factor.
func (b *Broker) unmade(err error) error {
	if b.opts.Replicas < 0 && errors.Is(err, kerr.InvalidReplicationFactor) {
		return fmt.Errorf("%w: %w", broker.ErrAway, err)
	}
	return orAway(err)
}

// stale reports whether err means that what is known of the topic no longer holds.
func stale(err error) bool {
	return isAny(err, broker.ErrRecreated, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.MessageTooLarge, kerr.RecordListTooLarge)
}

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}
