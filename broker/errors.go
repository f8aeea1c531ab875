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
	// ErrRecreated is wrapped by errors about messages whose topic does not have the expected id: it was
	// deleted and recreated, or created after its id was requested. Request the id again before the next
	// attempt.
	ErrRecreated = errors.New("the topic was recreated")
	// ErrUnavailable is wrapped by errors about a broker that is unreachable or not ready. The call may be
	// repeated later.
	ErrUnavailable = errors.New("broker: unavailable")
	// ErrOwner is wrapped by errors about a group that has members of another database or schema.
	ErrOwner = errors.New("the group belongs to another database or schema")
	// ErrHeldBack is wrapped by errors about messages that were not published because an earlier message of
	// their key was not.
	ErrHeldBack = errors.New("held back: an earlier message of its key is not durable")
	// ErrShared is wrapped by refusals of several messages together, of which one may be the cause. A
	// refusal is final only for a message that was published alone.
	ErrShared = errors.New("refused together with other messages")
	// ErrUnsupported is wrapped by errors about calls that this kind of broker does not support, with any
	// settings.
	ErrUnsupported = errors.New("not supported by this broker")
	// ErrClosed is returned by calls on a closed broker or subscription.
	ErrClosed = errors.New("broker: closed")
)

// NoQueueError refuses messages of a topic for which no consumer group has a queue. It wraps ErrNoTopic.
// The remedy is to start a consumer, or to create a group's queues.
type NoQueueError struct{ Topic string }

func (e *NoQueueError) Error() string {
	return fmt.Sprintf("no consumer group has a queue for topic %q yet", e.Topic)
}

// Unwrap returns ErrNoTopic.
func (e *NoQueueError) Unwrap() error { return ErrNoTopic }

// TopicError is the broker's refusal of one topic of a subscription: the topic does not exist, its settings
// are unusable, or the right to read it is missing. Other topics are not affected.
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

// TooLargeError is the Fault of a delivery above a limit. For a record, the message contains the beginning
// of its data. For a batch of records, which was not unpacked, the message is empty.
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

// PublishError lists the messages of one call that are not, or may not be, durable. All others are durable.
type PublishError struct {
	// Failed has, by index, messages that are probably not durable and can be retried. It includes messages
	// that were held back because an earlier message of their key failed.
	Failed map[int]error
	// Refused has, by index, messages that the broker will always refuse: too large, no such topic, no
	// right. A refusal that wraps ErrShared may include innocent messages.
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
