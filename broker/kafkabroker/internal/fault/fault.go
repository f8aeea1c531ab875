// Package fault says what an error of Kafka, or of the way to it, means for whoever asked.
package fault

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/cloudevents"
)

// A Kind is what a failed message means for its caller.
type Kind int

const (
	Failed  Kind = iota // worth another try
	Refused             // it will be answered the same next time
	Outage              // nothing is known
)

// Classify says what the error of one message means for its caller.
func Classify(topic string, err error) (Kind, error) {
	switch {
	case errors.Is(err, broker.ErrHeldBack):
		return Failed, broker.ErrHeldBack
	case errors.Is(err, broker.ErrRecreated):
		return Failed, fmt.Errorf("publish to %q: %w", topic, err)
	case Any(err, broker.ErrClosed, kgo.ErrClientClosed, context.Canceled, context.DeadlineExceeded,
		kgo.ErrRecordTimeout, kgo.ErrRecordRetries):
		return Outage, OrAway(err)
	case Any(err, cloudevents.ErrCannotCarry, broker.ErrNoTopic, kerr.MessageTooLarge,
		kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTopicException,
		kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.PolicyViolation,
		kerr.InvalidTimestamp):
		return Refused, fmt.Errorf("publish to %q: %w", topic, Lacking(err, "WRITE", "the topic"))
	}
	var answered *kerr.Error
	if !errors.As(err, &answered) {
		return Outage, OrAway(err) // of the network
	}
	return Failed, fmt.Errorf("publish to %q: %w", topic, err)
}

// OrAway marks an error that did not come from Kafka itself, or that Kafka gives while it starts, elects or
// moves.
func OrAway(err error) error {
	var answered *kerr.Error
	switch {
	case errors.Is(err, kgo.ErrClientClosed):
		return fmt.Errorf("%w: %w", broker.ErrClosed, err)
	case Any(err, context.Canceled, broker.ErrClosed):
		return err
	case errors.As(err, &answered) && !answered.Retriable:
		return err
	}
	return fmt.Errorf("%w: %w", broker.ErrAway, err)
}

// Stale reports whether err means that what is known of the topic no longer holds.
func Stale(err error) bool {
	return Any(err, broker.ErrRecreated, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID,
		kerr.MessageTooLarge, kerr.RecordListTooLarge)
}

// Any tells whether err is one of targets.
func Any(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}

// Lacking names the right that err says is missing.
func Lacking(err error, right, thing string) error {
	if !Any(err, kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed,
		kerr.ClusterAuthorizationFailed) {
		return err
	}
	if errors.Is(err, kerr.ClusterAuthorizationFailed) && right == "WRITE" {
		right, thing = "IDEMPOTENT_WRITE", "the cluster (Kafka before 2.8 asks for it)"
	}
	return fmt.Errorf("no right to %s %s: give %s on it to this user: %w", right, thing, right, err)
}
