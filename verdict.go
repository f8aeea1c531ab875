package skald

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// RejectedError is what Reject returns. The inbox finds it through any wrapping.
type RejectedError struct {
	Err error
	Say []Draft
}

func (e *RejectedError) Error() string { return fmt.Sprintf("rejected: %v", e.Err) }
func (e *RejectedError) Unwrap() error { return e.Err }

// ErrNoReason is the error that Reject returns without a reason. It is an ordinary failure.
var ErrNoReason = errors.New("skald.Reject(nil): give the reason, it is stored and answered to each repeat")

// Reject is a handler's final "no": its rows are undone, the verdict is stored under the message's identity
// so that a repeat gets the same answer, say is published, and the message is never tried again. The text of
// err is the stored reason. If err is nil, Reject returns ErrNoReason. If the Error method of err panics, as
// that of a nil pointer can, Reject returns an ordinary failure that names its type.
func Reject(err error, say ...Draft) error {
	if err == nil {
		return ErrNoReason
	}
	if bad := readable(err); bad != nil {
		return bad
	}
	return &RejectedError{Err: err, Say: say}
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

// LaterError is what RetryAfter returns. The inbox finds it through any wrapping.
type LaterError struct {
	After time.Duration
	Err   error
}

func (e *LaterError) Error() string { return fmt.Sprintf("not before %v: %v", e.After, e.Err) }
func (e *LaterError) Unwrap() error { return e.Err }

// RetryAfter is a handler's "not yet": its rows are undone and the message, with all that is behind it under
// its key, waits for d. It does not count as a failure. The least wait is Retry.First of an inbox, 100 ms by
// default, and 100 ms in a saga. The text of err is kept with the message.
func RetryAfter(d time.Duration, err error) error { return &LaterError{After: d, Err: err} }

// AgainError is what Again returns. The inbox finds it through any wrapping.
type AgainError struct{ Err error }

func (e *AgainError) Error() string { return fmt.Sprintf("overtaken: %v", e.Err) }
func (e *AgainError) Unwrap() error { return e.Err }

// Again is a handler's "somebody was faster": what it read is no longer so when it writes, a version that
// moved. Its rows are undone and the message is taken again at once, sixteen times at most; from then on it
// is a failure like another.
func Again(err error) error { return &AgainError{Err: err} }

// PermanentError is what Permanent returns. The inbox finds it through any wrapping.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return fmt.Sprintf("permanent: %v", e.Err) }
func (e *PermanentError) Unwrap() error { return e.Err }

// Permanent is a handler's "this cannot work": its rows are undone and the message is a dead letter at once.
// Where others are to be told, and it is an answer that a process expects, Reject says it.
func Permanent(err error) error { return &PermanentError{Err: err} }

// VersionError is what UnknownVersion returns. The inbox finds it through any wrapping.
type VersionError struct{ Err error }

func (e *VersionError) Error() string { return fmt.Sprintf("unknown version: %v", e.Err) }
func (e *VersionError) Unwrap() error { return e.Err }

// UnknownVersion is a codec's or handler's "this build does not know it": the message is parked, uncharged,
// until a build that does takes it.
func UnknownVersion(err error) error { return &VersionError{Err: err} }

// OutageError is what Outage returns. The inbox finds it through any wrapping.
type OutageError struct{ Err error }

func (e *OutageError) Error() string { return fmt.Sprintf("outage: %v", e.Err) }
func (e *OutageError) Unwrap() error { return e.Err }

// Outage is a handler's, a codec's or a call's "a service that I need is away": the rows are undone, and no
// attempt is charged for the first 10 min (inbox.Retry.Uncharged), in which the message is tried again with
// growing waits of up to 30 s. Messages of its key wait; all others go on. After three attempts it is parked
// and listed in inbox.Health.Stuck. Without Outage an error of another service, "connection refused" say, is
// charged like any other. Outages of the transaction that Skald lent are known without it.
func Outage(err error) error { return &OutageError{Err: err} }

type causeKey struct{}

// WithCause returns a context under which drafts are stamped as said because of m: the same correlation,
// m as causation, m's trace. The inbox does this for handlers. Losing the context loses only the stamp.
func WithCause(ctx context.Context, m Message) context.Context {
	return context.WithValue(ctx, causeKey{}, m)
}

// Cause is the message that WithCause put into ctx.
func Cause(ctx context.Context) (Message, bool) {
	m, ok := ctx.Value(causeKey{}).(Message)
	return m, ok
}
