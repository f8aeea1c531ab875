// This file classifies errors of Kafka and of the network.

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

// kind tells the caller of Publish how to treat a failed message.
type kind int

const (
	failed  kind = iota // a retry may succeed
	refused             // a retry would fail in the same way
	outage              // the outcome is unknown
)

// classify returns the kind of an error of one message, and the error for the caller of Publish.
func classify(topic string, err error) (kind, error) {
	switch {
	case errors.Is(err, broker.ErrHeldBack):
		return failed, broker.ErrHeldBack
	case errors.Is(err, broker.ErrRecreated):
		return failed, fmt.Errorf("publish to %q: %w", topic, err)
	case isAny(err, broker.ErrClosed, kgo.ErrClientClosed, context.Canceled, context.DeadlineExceeded,
		kgo.ErrRecordTimeout, kgo.ErrRecordRetries):
		return outage, orUnavailable(err)
	case isAny(err, cloudevents.ErrCannotCarry, broker.ErrNoTopic, kerr.MessageTooLarge,
		kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTopicException,
		kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.PolicyViolation,
		kerr.InvalidTimestamp):
		return refused, fmt.Errorf("publish to %q: %w", topic, withRight(err, "WRITE", "the topic"))
	}
	var answered *kerr.Error
	if !errors.As(err, &answered) {
		return outage, orUnavailable(err) // a network error
	}
	return failed, fmt.Errorf("publish to %q: %w", topic, err)
}

// orUnavailable wraps err in broker.ErrUnavailable, unless it is an error that a retry cannot cure. A retry
// can cure network errors, and Kafka's errors during a start, an election or a move of a partition.
func orUnavailable(err error) error {
	var answered *kerr.Error
	switch {
	case errors.Is(err, kgo.ErrClientClosed):
		return fmt.Errorf("%w: %w", broker.ErrClosed, err)
	case isAny(err, context.Canceled, broker.ErrClosed):
		return err
	case errors.As(err, &answered) && !answered.Retriable:
		return err
	}
	return fmt.Errorf("%w: %w", broker.ErrUnavailable, err)
}

// stale returns true if err may come from outdated metadata of the topic.
func stale(err error) bool {
	return isAny(err, broker.ErrRecreated, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID,
		kerr.MessageTooLarge, kerr.RecordListTooLarge)
}

// isAny returns true if err wraps any of targets.
func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}

// withRight adds the missing permission and its remedy to an authorization error. It returns other errors
// unchanged.
func withRight(err error, permission, thing string) error {
	if !isAny(err, kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed,
		kerr.ClusterAuthorizationFailed) {
		return err
	}
	if errors.Is(err, kerr.ClusterAuthorizationFailed) && permission == "WRITE" {
		permission, thing = "IDEMPOTENT_WRITE", "the cluster (required before Kafka 2.8)"
	}
	return fmt.Errorf("no right to %s %s: give %s on it to this user: %w", permission, thing, permission, err)
}
