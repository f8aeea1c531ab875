// This file says what an error of Kafka, or of the way to it, means for whoever asked.

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

// A kind is what a failed message means for its caller.
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
	case faultAny(err, broker.ErrClosed, kgo.ErrClientClosed, context.Canceled, context.DeadlineExceeded,
		kgo.ErrRecordTimeout, kgo.ErrRecordRetries):
		return outage, orAway(err)
	case faultAny(err, cloudevents.ErrCannotCarry, broker.ErrNoTopic, kerr.MessageTooLarge,
		kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTopicException,
		kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.PolicyViolation,
		kerr.InvalidTimestamp):
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
	case faultAny(err, context.Canceled, broker.ErrClosed):
		return err
	case errors.As(err, &answered) && !answered.Retriable:
		return err
	}
	return fmt.Errorf("%w: %w", broker.ErrAway, err)
}

// stale reports whether err means that what is known of the topic no longer holds.
func stale(err error) bool {
	return faultAny(err, broker.ErrRecreated, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID,
		kerr.MessageTooLarge, kerr.RecordListTooLarge)
}

// faultAny tells whether err is one of targets.
func faultAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}

// lacking names the right that err says is missing.
func lacking(err error, right, thing string) error {
	if !faultAny(err, kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed,
		kerr.ClusterAuthorizationFailed) {
		return err
	}
	if errors.Is(err, kerr.ClusterAuthorizationFailed) && right == "WRITE" {
		right, thing = "IDEMPOTENT_WRITE", "the cluster (Kafka before 2.8 asks for it)"
	}
	return fmt.Errorf("no right to %s %s: give %s on it to this user: %w", right, thing, right, err)
}
