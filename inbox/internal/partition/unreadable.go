package partition

import (
	"errors"
	"fmt"
	"strings"

	"github.com/skald-go/skald/failure"
)

var (
	// ErrNoEnvelope is the failure of a message whose envelope cannot be read.
	ErrNoEnvelope = errors.New("inbox: the envelope cannot be read")
	// ErrTooLarge is the failure of a dead letter of the kind too_large that is redriven.
	ErrTooLarge = errors.New("inbox: it was too large, and not all of it is kept: have it sent again in parts, or after Options.Limits.Record was raised, and drop this letter")
	// ErrUnkept is the failure of a dead letter of the kind unkept that is redriven, if its payload is not
	// kept.
	ErrUnkept = errors.New("inbox: the store refused it again and again, and its payload is not kept: repair the store, have the message sent again under another id, and drop this letter")
)

// Unreadable is why e cannot be taken; nil: it can.
func (e *Entry) Unreadable() error {
	switch {
	case e.Parked != nil && strings.HasPrefix(e.Parked.Fault, failure.FaultTooLarge):
		return fmt.Errorf("%w: %s", ErrTooLarge, strings.TrimPrefix(e.Parked.Fault, failure.FaultTooLarge))
	case e.Parked != nil && !failure.Whole(e.Parked.Fault):
		return fmt.Errorf("%w: %s", ErrUnkept, strings.TrimPrefix(e.Parked.Fault, failure.FaultUnkept))
	case e.Parked != nil && e.Parked.Fault != "":
		return fmt.Errorf("%w: %s", ErrNoEnvelope, e.Parked.Fault)
	case e.TooLarge():
		return e.Fault
	case e.Fault != nil:
		return fmt.Errorf("%w: %w", ErrNoEnvelope, e.Fault)
	case e.Unknown != nil && e.Parked == nil:
		return fmt.Errorf("what is it: %w", e.Unknown)
	}
	return nil
}

// Kept is the Fault that is kept of e; "": e can be read.
func (e *Entry) Kept() string {
	switch {
	case e.Readable():
		return ""
	case e.TooLarge():
		return failure.FaultTooLarge + e.Unreadable().Error()
	}
	return e.Unreadable().Error()
}
