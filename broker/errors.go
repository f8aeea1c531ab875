package broker

import (
	"errors"
	"fmt"
	"slices"
)

var (
	// ErrNoTopic is wrapped by errors about a topic that does not exist.
	ErrNoTopic = errors.New("no such topic")
	// ErrNoGroup is wrapped by errors about a consumer group that the broker does not have.
	ErrNoGroup = errors.New("the broker has no such group: check the consumer's name and the broker's URL")
	// ErrRecreated is wrapped by errors about messages whose topic does not have the expected id. The topic
	// was recreated, or was created after the caller requested its id. Request the id again before the next
	// attempt.
	ErrRecreated = errors.New("the topic was recreated")
	// ErrUnavailable is wrapped by errors about a broker that is unreachable or not ready. The caller may
	// retry later.
	ErrUnavailable = errors.New("broker: unavailable")
	// ErrOwner is wrapped by errors about a group that has members of another database or schema.
	ErrOwner = errors.New("the group belongs to another database or schema")
	// ErrHeldBack is wrapped by errors about messages that were not published because an earlier message of
	// their key failed.
	ErrHeldBack = errors.New("held back: an earlier message of its key is not durable")
	// ErrShared is wrapped by errors about messages that the broker refused together, perhaps because of one
	// message only. A refusal is final only for a message that was published alone.
	ErrShared = errors.New("refused together with other messages")
	// ErrUnsupported is wrapped by errors about calls that this kind of broker does not support, with any
	// settings.
	ErrUnsupported = errors.New("not supported by this broker")
	// ErrClosed is returned by calls on a closed broker or subscription.
	ErrClosed = errors.New("broker: closed")
)

// NoQueueError reports that no consumer group has a queue for a topic. It wraps ErrNoTopic. To fix it, start
// a consumer, or create the queues of a group.
type NoQueueError struct{ Topic string }

func (e *NoQueueError) Error() string {
	return fmt.Sprintf("no consumer group has a queue for topic %q yet", e.Topic)
}

// Unwrap returns ErrNoTopic.
func (e *NoQueueError) Unwrap() error { return ErrNoTopic }

// TopicError reports that the broker refuses one topic of a subscription. The topic does not exist, its
// settings are unusable, or the right to read it is missing. Other topics are not affected.
type TopicError struct {
	Topic string
	Err   error
}

func (e *TopicError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *TopicError) Unwrap() error { return e.Err }

// OwnerError reports that another database owns a group. It wraps ErrOwner.
type OwnerError struct {
	Group                    string
	Owner, OwnerName         string // the owner in the broker
	Requester, RequesterName string // the owner that tried to join
}

func (e *OwnerError) Error() string {
	return fmt.Sprintf("group %q belongs to %s (%s), and this is %s (%s): give this consumer another name, or its "+
		"right database; if this database takes the group over, stop the consumers of the other one, then: "+
		"skald consumer adopt --consumer %s --from %s --broker URL --reason TEXT", e.Group, e.OwnerName, e.Owner,
		e.RequesterName, e.Requester, e.Group, e.Owner)
}

// Unwrap returns ErrOwner.
func (*OwnerError) Unwrap() error { return ErrOwner }

// TooLargeError is the Fault of a delivery above a size limit. It is about one record, or about a whole batch
// of records. For a record, the message contains the beginning of the data. For a batch, the message is
// empty, because the driver did not unpack the batch.
type TooLargeError struct {
	Bytes       int64  // of the record; 0 for a batch
	Limit       int64  // in bytes
	SHA256      string // of the record's data, in hexadecimal; "" if unknown
	First, Last int64  // positions of a batch
}

func (e *TooLargeError) Error() string {
	if e.Bytes == 0 {
		return fmt.Sprintf(
			"the batch of positions %d to %d needs more than %d bytes of memory when unpacked, and was not read", e.First,
			e.Last, e.Limit)
	}
	return fmt.Sprintf(
		"the record has %d bytes, more than %d; only the beginning of its data is kept; SHA-256 of all: %s",
		e.Bytes, e.Limit, e.SHA256)
}

// PublishError lists the messages of one call that are not durable, or may not be durable. All other messages
// of the call are durable.
type PublishError struct {
	// Failed has errors by the index of the message. These messages are probably not durable, and can be
	// retried. Failed includes messages that were held back because an earlier message of their key failed.
	Failed map[int]error
	// Refused has errors by the index of the message. The broker will refuse these messages again: they are
	// too large, or the topic or a right is missing. If an error wraps ErrShared, the message itself may be
	// fine.
	Refused map[int]error
}

// Fail records that message i failed.
func (e *PublishError) Fail(i int, err error) {
	if e.Failed == nil {
		e.Failed = map[int]error{}
	}
	e.Failed[i] = err
}

// Refuse records that message i was refused.
func (e *PublishError) Refuse(i int, err error) {
	if e.Refused == nil {
		e.Refused = map[int]error{}
	}
	e.Refused[i] = err
}

func (e *PublishError) Error() string {
	return fmt.Sprintf("publish: %d refused, %d failed: %v", len(e.Refused), len(e.Failed), e.First())
}

// Unwrap returns the error of the first message that has one.
func (e *PublishError) Unwrap() error { return e.First() }

// First returns the error of the first message that has one.
func (e *PublishError) First() error {
	first, err := -1, error(nil)
	for _, m := range []map[int]error{e.Failed, e.Refused} {
		for i, why := range m {
			if first < 0 || i < first {
				first, err = i, why
			}
		}
	}
	return err
}

// Indexes returns the indexes of all failed and refused messages, in order.
func (e *PublishError) Indexes() []int {
	out := make([]int, 0, len(e.Failed)+len(e.Refused))
	for i := range e.Failed {
		out = append(out, i)
	}
	for i := range e.Refused {
		out = append(out, i)
	}
	slices.Sort(out)
	return out
}
