package failure

import (
	"slices"
	"time"

	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/store"
)

// Retry limits the retries of failed work, before it becomes a dead letter.
type Retry struct {
	// InitialInterval and MaxInterval are the first and the longest wait. The wait doubles, with jitter.
	InitialInterval, MaxInterval time.Duration

	Attempts int           // counted failures until it is a dead letter
	Age      time.Duration // since the first failure, until it is a dead letter
	// OutageRetryTime is how long failures of the class Outage are not counted, from the first failure on.
	OutageRetryTime time.Duration
}

// MostOutage is the longest wait after an outage or for a rival.
const MostOutage = 30 * time.Second

// Record is the history of failed attempts of one piece of work.
type Record struct {
	Attempts    int // counted failures
	First, Last store.Failure
	Failures    []store.Failure // the last ones, oldest first, at most store.MaxFailures
}

// Add records one more failed attempt.
func (r *Record) Add(f store.Failure, charged bool) {
	r.Last = f
	r.Failures = append(slices.Clip(r.Failures), f) // the old array may belong to another Record
	r.Failures = r.Failures[max(0, len(r.Failures)-store.MaxFailures):]
	if r.First.At.IsZero() {
		r.First = f
	}
	if charged {
		r.Attempts++
	}
}

// Charges reports whether a failure of this class at this time counts towards Attempts, after the failures in
// r. A failure of the class Outage counts from OutageRetryTime after the first failure on, or from
// OutageRetryTime after up, if that is later. Up is the last return of the database, zero if it was never
// away.
func (t Retry) Charges(class Class, r Record, at, up time.Time) bool {
	if class != Outage {
		return class.Charged()
	}
	since := r.First.At
	if up.After(since) {
		since = up
	}
	return !r.First.At.IsZero() && at.Sub(since) >= t.OutageRetryTime
}

// Wait returns the delay before the next attempt, after a failure of this class. The failure must be in r.
func (t Retry) Wait(class Class, r Record) time.Duration {
	charged := backoff.After(max(r.Attempts, 1), t.InitialInterval, t.MaxInterval)
	switch class {
	case UnknownVersion:
		return backoff.After(1, t.MaxInterval, t.MaxInterval)
	case Outage: // grows with the time since the first failure, because free attempts are not counted
		d := min(max(r.Last.At.Sub(r.First.At), t.InitialInterval), t.MaxInterval, MostOutage)
		return max(charged, backoff.After(1, d, d))
	}
	return charged
}

// WaitOutage returns the delay after so many consecutive outages, at most 30 s plus jitter.
func (t Retry) WaitOutage(outages int) time.Duration {
	return backoff.After(outages, t.InitialInterval, min(t.MaxInterval, MostOutage))
}

// Dead returns the kind of dead letter that the work becomes after a failure of this class. It returns "" if
// the work is retried. The failure must be in r.
func (t Retry) Dead(class Class, r Record) (kind string) {
	switch {
	case class == Permanent, class == Malformed, class == TooLarge:
		return string(class)
	case r.Attempts >= t.Attempts:
		return KindAttempts
	// After a long stop of the process, a deadlock must not be the last attempt.
	case class != Outage && r.Last.At.Sub(r.First.At) >= t.Age:
		return KindAge
	}
	return ""
}
