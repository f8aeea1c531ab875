package skald

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// RejectedError is the error of Reject. Skald finds it with errors.As, so a handler may wrap it.
type RejectedError struct {
	Err     error
	Publish []Draft
}

func (e *RejectedError) Error() string { return fmt.Sprintf("rejected: %v", e.Err) }
func (e *RejectedError) Unwrap() error { return e.Err }

// ErrNoReason is the error that Reject returns without a reason. Skald treats it as an ordinary failure.
var ErrNoReason = errors.New("skald.Reject(nil): give the reason, it is stored and answered to each repeat")

// Reject returns an error with which a handler finally refuses its message. Skald rolls back the
// transaction of the handler, stores the refusal under the identity of the message, publishes the answers,
// and does not retry. A duplicate gets the same answers. The text of err is stored as the reason.
//
// If err is nil, Reject returns ErrNoReason. If the Error method of err panics, as the method of a nil
// pointer may, Reject returns an ordinary error with the type of err.
func Reject(err error, answers ...Draft) error {
	if err == nil {
		return ErrNoReason
	}
	if bad := readable(err); bad != nil {
		return bad
	}
	return &RejectedError{Err: err, Publish: answers}
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

// orNotGiven returns err, or errNotGiven if err is nil.
func orNotGiven(err error) error {
	if err == nil {
		return errNotGiven
	}
	return err
}

var errNotGiven = errors.New("no reason was given: pass an error")

// LaterError is the error of RetryAfter. Skald finds it with errors.As, so a handler may wrap it.
type LaterError struct {
	After time.Duration
	Err   error
}

func (e *LaterError) Error() string { return fmt.Sprintf("not before %v: %v", e.After, e.Err) }
func (e *LaterError) Unwrap() error { return e.Err }

// RetryAfter returns an error with which a handler requests a retry after d. Skald rolls back the
// transaction of the handler. The message waits, and so do later messages of its key. The attempt does not
// count as failed. The minimum wait is Retry.InitialInterval of an inbox (100 ms by default), and 100 ms in
// a saga. The text of err is stored with the message.
func RetryAfter(d time.Duration, err error) error { return &LaterError{After: d, Err: orNotGiven(err)} }

// RetryNowError is the error of RetryNow. Skald finds it with errors.As, so a handler may wrap it.
type RetryNowError struct{ Err error }

func (e *RetryNowError) Error() string { return fmt.Sprintf("overtaken: %v", e.Err) }
func (e *RetryNowError) Unwrap() error { return e.Err }

// RetryNow returns an error with which a handler requests an immediate retry, because a row that it read has
// changed before its write. Skald rolls back the transaction and runs the handler again, at most 16 times.
// After that, Skald treats the error as an ordinary failure.
func RetryNow(err error) error { return &RetryNowError{Err: orNotGiven(err)} }

// PermanentError is the error of Permanent. Skald finds it with errors.As, so a handler may wrap it.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return fmt.Sprintf("permanent: %v", e.Err) }
func (e *PermanentError) Unwrap() error { return e.Err }

// Permanent returns an error with which a handler reports that no retry can help. Skald rolls back the
// transaction of the handler, and the message becomes a dead letter at once. Use Reject instead if the
// refusal is a regular answer that other services expect.
func Permanent(err error) error { return &PermanentError{Err: orNotGiven(err)} }

// VersionError is the error of UnknownVersion. Skald finds it with errors.As, so a handler may wrap it.
type VersionError struct{ Err error }

func (e *VersionError) Error() string { return fmt.Sprintf("unknown version: %v", e.Err) }
func (e *VersionError) Unwrap() error { return e.Err }

// UnknownVersion returns an error with which a codec or a handler leaves a message to another build of the
// service. Skald parks the message until a build handles it. The attempt does not count as failed.
func UnknownVersion(err error) error { return &VersionError{Err: orNotGiven(err)} }

// OutageError is the error of Outage. Skald finds it with errors.As, so a handler may wrap it.
type OutageError struct{ Err error }

func (e *OutageError) Error() string { return fmt.Sprintf("outage: %v", e.Err) }
func (e *OutageError) Unwrap() error { return e.Err }

// Outage returns an error with which a handler, a codec or a call reports that another service does not
// answer. Skald rolls back the transaction, and retries at growing intervals of up to 30 s. In the first 10
// min (inbox.Retry.OutageRetryTime), these attempts do not count as failed. Messages of the same key wait;
// other messages go on. After three attempts Skald parks the message, and inbox.Health.Stuck lists it.
//
// Without Outage, an error of another service counts as a failed attempt. Skald itself detects an outage of
// the database of the handler's transaction.
func Outage(err error) error { return &OutageError{Err: orNotGiven(err)} }

type causeKey struct{}

// WithCause returns a context for messages that m causes. A message that is written with this context gets
// the correlation ID of m, the ID of m as its causation ID, and the trace of m. The inbox calls WithCause
// for handlers. A message that is written with another context lacks only these fields.
func WithCause(ctx context.Context, m Message) context.Context {
	return context.WithValue(ctx, causeKey{}, m)
}

// Cause returns the message that WithCause put into ctx.
func Cause(ctx context.Context) (Message, bool) {
	m, ok := ctx.Value(causeKey{}).(Message)
	return m, ok
}
