package skald

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// RejectedError is the error of Reject. Skald finds it through any wrapping.
type RejectedError struct {
	Err     error
	Publish []Draft
}

func (e *RejectedError) Error() string { return fmt.Sprintf("rejected: %v", e.Err) }
func (e *RejectedError) Unwrap() error { return e.Err }

// ErrNoReason is the error that Reject returns without a reason. It is an ordinary failure.
var ErrNoReason = errors.New("skald.Reject(nil): give the reason, it is stored and answered to each repeat")

// Reject returns an error by which a handler refuses its message for good. Skald rolls the handler's rows
// back, stores the refusal under the message's identity, publishes say, and does not retry. A repeat gets
// the same answer. The text of err is the stored reason. If err is nil, Reject returns ErrNoReason. If the
// Error method of err panics, as that of a nil pointer can, Reject returns an ordinary failure that names
// its type.
func Reject(err error, say ...Draft) error {
	if err == nil {
		return ErrNoReason
	}
	if bad := readable(err); bad != nil {
		return bad
	}
	return &RejectedError{Err: err, Publish: say}
}

// readable returns an error if the Error method of err panics.
func readable(err error) (bad error) {
	defer func() {
		if v := recover(); v != nil {
			bad = fmt.Errorf("skald.Reject: the Error method of its reason, a %T, panicked: %v", err, v)
		}
	}()
	_ = err.Error()
	return nil
}

// given returns err, or an error that names the missing reason.
func given(err error) error {
	if err == nil {
		return errNotGiven
	}
	return err
}

var errNotGiven = errors.New("no reason was given: pass an error")

// LaterError is the error of RetryAfter. Skald finds it through any wrapping.
type LaterError struct {
	After time.Duration
	Err   error
}

func (e *LaterError) Error() string { return fmt.Sprintf("not before %v: %v", e.After, e.Err) }
func (e *LaterError) Unwrap() error { return e.Err }

// RetryAfter returns an error by which a handler asks for a retry after d. Skald rolls the handler's rows
// back. The message waits, with the later messages of its key. It is not a failed attempt. The least wait
// is Retry.InitialInterval of an inbox, 100 ms by default, and 100 ms in a saga. The text of err is stored
// with the message.
func RetryAfter(d time.Duration, err error) error { return &LaterError{After: d, Err: given(err)} }

// RetryNowError is the error of RetryNow. Skald finds it through any wrapping.
type RetryNowError struct{ Err error }

func (e *RetryNowError) Error() string { return fmt.Sprintf("overtaken: %v", e.Err) }
func (e *RetryNowError) Unwrap() error { return e.Err }

// RetryNow returns an error by which a handler asks for a retry at once, because a row that it read has
// changed before its write. Skald rolls the handler's rows back and runs it again, 16 times at most. After
// that the error is an ordinary failure.
func RetryNow(err error) error { return &RetryNowError{Err: given(err)} }

// PermanentError is the error of Permanent. Skald finds it through any wrapping.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return fmt.Sprintf("permanent: %v", e.Err) }
func (e *PermanentError) Unwrap() error { return e.Err }

// Permanent returns an error by which a handler gives a message up, because no retry can help. Skald rolls
// the handler's rows back, and the message becomes a dead letter at once. Use Reject instead if the refusal
// is a regular answer that others expect.
func Permanent(err error) error { return &PermanentError{Err: given(err)} }

// VersionError is the error of UnknownVersion. Skald finds it through any wrapping.
type VersionError struct{ Err error }

func (e *VersionError) Error() string { return fmt.Sprintf("unknown version: %v", e.Err) }
func (e *VersionError) Unwrap() error { return e.Err }

// UnknownVersion returns an error by which a codec or a handler leaves a message to another build. Skald
// parks the message, without a failed attempt, until a build handles it.
func UnknownVersion(err error) error { return &VersionError{Err: given(err)} }

// OutageError is the error of Outage. Skald finds it through any wrapping.
type OutageError struct{ Err error }

func (e *OutageError) Error() string { return fmt.Sprintf("outage: %v", e.Err) }
func (e *OutageError) Unwrap() error { return e.Err }

// Outage returns an error by which a handler, a codec or a call reports that a service does not answer.
// Skald rolls the rows back and retries with growing waits of up to 30 s. For the first 10 min
// (inbox.Retry.OutageRetryTime) it charges no attempt. Messages of the same key wait; all others go on. After
// three attempts the message is parked and listed in inbox.Health.Stuck. Without Outage, an error of
// another service is charged like any other. Skald detects an outage of the lent transaction by itself.
func Outage(err error) error { return &OutageError{Err: given(err)} }

type causeKey struct{}

// WithCause returns a context for messages that m causes. They get m's correlation id, m's id as causation,
// and m's trace. The inbox calls it for handlers. A write with another context lacks only these fields.
func WithCause(ctx context.Context, m Message) context.Context {
	return context.WithValue(ctx, causeKey{}, m)
}

// Cause returns the message that WithCause put into ctx.
func Cause(ctx context.Context) (Message, bool) {
	m, ok := ctx.Value(causeKey{}).(Message)
	return m, ok
}
