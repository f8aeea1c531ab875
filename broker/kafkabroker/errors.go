package kafkabroker

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/broker"
)

var errHeldBack = errors.New("held back: an earlier message of its key is not durable")

type kind int

const (
	failed  kind = iota // worth another try
	refused             // it will be answered the same next time
	outage              // nothing is known
)

// classify says what the error of one message means for its caller.
func classify(topic string, err error) (kind, error) {
	switch {
	case errors.Is(err, errHeldBack):
		return failed, errHeldBack
	case isAny(err, broker.ErrClosed, kgo.ErrClientClosed, context.Canceled, context.DeadlineExceeded, kgo.ErrRecordTimeout, kgo.ErrRecordRetries):
		return outage, orClosed(err)
	case isAny(err, broker.ErrNoTopic, kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTopicException,
		kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.PolicyViolation, kerr.InvalidTimestamp):
		return refused, fmt.Errorf("publish to %q: %w", topic, err)
	}
	var answered *kerr.Error
	if !errors.As(err, &answered) {
		return outage, err // of the network
	}
	return failed, fmt.Errorf("publish to %q: %w", topic, err)
}

// stale reports whether err means that what is known of the topic no longer holds.
func stale(err error) bool {
	return isAny(err, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.MessageTooLarge, kerr.RecordListTooLarge)
}

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}
