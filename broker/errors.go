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
	// ErrRecreated is wrapped by errors about messages to a topic that has not the id under which it was
	// meant: it was deleted and made anew, or made since it was asked for. Ask for its id before the next
	// try.
	ErrRecreated = errors.New("the topic was made anew")
	// ErrAway is wrapped by errors that say that the broker cannot be reached or is not ready yet: what was
	// asked may be asked again later.
	ErrAway = errors.New("broker: away")
	// ErrOwner is wrapped by errors about a group that has members of another database or schema.
	ErrOwner = errors.New("the group belongs to another database or schema")
	// ErrHeldBack is wrapped by errors about messages that were not published because an earlier one of their
	// key was not.
	ErrHeldBack = errors.New("held back: an earlier message of its key is not durable")
	// ErrShared is wrapped by refusals of several messages at once. One of them may be the reason for all.
	// Such a refusal counts only for a message that was published alone.
	ErrShared = errors.New("refused together with other messages")
	// ErrUnsupported is wrapped by errors about what this kind of broker cannot do or tell, whatever its
	// settings.
	ErrUnsupported = errors.New("not supported by this broker")
	// ErrClosed is returned by calls on a closed broker or subscription.
	ErrClosed = errors.New("broker: closed")
)

// NoQueueError is the refusal of messages of a topic that no consumer group has a queue for. It wraps
// ErrNoTopic. The remedy is a consumer, or a group's queues.
type NoQueueError struct{ Topic string }

func (e *NoQueueError) Error() string {
	return fmt.Sprintf("no consumer group has a queue for topic %q yet", e.Topic)
}

// Unwrap returns ErrNoTopic.
func (e *NoQueueError) Unwrap() error { return ErrNoTopic }

// TopicError is the broker's refusal of one topic of a subscription: the topic does not exist, its settings
// cannot be used, or a right to read it is missing. It says nothing about the other topics.
type TopicError struct {
	Topic string
	Err   error
}

func (e *TopicError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *TopicError) Unwrap() error { return e.Err }

// OwnerError says that the broker keeps another database as the owner of a group. It wraps ErrOwner.
type OwnerError struct {
	Group            string
	Owner, OwnerName string // whose group it is
	Asks, AsksName   string // who asked for it
}

func (e *OwnerError) Error() string {
	return fmt.Sprintf("group %q belongs to %s (%s), and this is %s (%s): give this consumer another name, or its "+
		"right database; if this database takes the group over, stop the consumers of the other one, then: "+
		"skald consumer adopt --consumer %s --from %s --broker URL --reason TEXT", e.Group, e.OwnerName, e.Owner,
		e.AsksName, e.Asks, e.Group, e.Owner)
}

// Unwrap is ErrOwner.
func (*OwnerError) Unwrap() error { return ErrOwner }

// TooLargeError is the Fault of a delivery in place of data above the limit. The data is one record, and the
// message has its beginning. Or it is a batch of records that was not unpacked, and the message is empty.
type TooLargeError struct {
	Bytes       int64  // of the record; 0: it is a batch
	Limit       int64  // that it breaks, in bytes
	SHA256      string // of the record's data, in hexadecimal; "": not known
	First, Last int64  // positions of a batch
}

func (e *TooLargeError) Error() string {
	if e.Bytes == 0 {
		return fmt.Sprintf(
			"the batch of positions %d to %d takes more than %d bytes of memory unpacked, and was not read", e.First,
			e.Last, e.Limit)
	}
	return fmt.Sprintf(
		"the record has %d bytes, more than %d; of its data the beginning is kept, SHA-256 of all: %s",
		e.Bytes, e.Limit, e.SHA256)
}

// PublishError says which messages of one call are not, or may not be, durable. Those it does not name are.
type PublishError struct {
	// Failed, by index in the call: not durable as far as is known, worth another try. A message that was
	// held back because an earlier one of its key did not make it is here.
	Failed map[int]error
	// Refused, by index: the broker answered, and will answer the same next time (too large, no such topic,
	// no right). A refusal that wraps ErrShared may name innocent neighbours.
	Refused map[int]error
}

// Fail notes that message i failed.
func (e *PublishError) Fail(i int, err error) {
	if e.Failed == nil {
		e.Failed = map[int]error{}
	}
	e.Failed[i] = err
}

// Refuse notes that message i was refused.
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

// First is the error of the first message that has one.
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

// Indexes lists every index that is named, in order.
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
