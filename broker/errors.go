package broker

import (
	"errors"
	"fmt"
	"slices"
)

var (
	// ErrNoTopic is wrapped by errors about a topic that does not exist.
	ErrNoTopic = errors.New("no such topic")
	// ErrAnew is wrapped by errors about messages to a topic that has not the id under which it was meant: it was
	// deleted and made anew, or made since it was asked for. Ask for its id before the next try.
	ErrAnew = errors.New("the topic was made anew")
	// ErrAway is wrapped by errors that say that the broker cannot be reached or is not ready yet: what was asked may
	// be asked again later.
	ErrAway = errors.New("broker: away")
	// ErrClosed is returned by calls on a closed broker or subscription.
	ErrClosed = errors.New("broker: closed")
)

// PublishError says which messages of one call are not, or may not be, durable. Those it does not name are.
type PublishError struct {
	// Failed, by index in the call: not durable as far as is known, worth another try. A message that was held
	// back because an earlier one of its key did not make it is here.
	Failed map[int]error
	// Refused, by index: the broker answered, and will answer the same next time (too large, no such topic,
	// no right). Where the broker answers for many at once a refusal may name innocent neighbours: it counts
	// only for a message that was published alone.
	Refused map[int]error
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
