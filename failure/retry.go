package failure

import (
	"slices"
	"time"

	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/store"
)

// Retry limits the retries of failed work. After them, the work becomes a dead letter.
type Retry struct {
	// InitialInterval and MaxInterval are the first and the longest delay. The delay doubles after each
	// failure, with jitter.
	InitialInterval, MaxInterval time.Duration

	Attempts int           // the maximum number of counted failures
	Age      time.Duration // the maximum time since the first failure
	// OutageRetryTime is the time after the first failure during which failures of the class Outage do not
	// count.
	OutageRetryTime time.Duration
}

// MostOutage is the longest delay after an outage, or after a conflict with another transaction.
const MostOutage = 30 * time.Second

// Record is the history of the failures of one piece of work.
type Record struct {
	Attempts    int // the number of counted failures
	First, Last store.Failure
	Failures    []store.Failure // the last failures, oldest first, at most store.MaxFailures
}

// Add records a failure. The failure counts as an attempt if charged is true.
func (r *Record) Add(f store.Failure, charged bool) {
	r.Last = f
	r.Failures = append(slices.Clip(r.Failures), f) // Clip, because another Record may share the array
	r.Failures = r.Failures[max(0, len(r.Failures)-store.MaxFailures):]
	if r.First.At.IsZero() {
		r.First = f
	}
	if charged {
		r.Attempts++
	}
}

// Charges returns true if a failure of this class at the time failedAt counts towards Attempts. r has the
// earlier failures. A failure of the class Outage counts after OutageRetryTime. That time begins at the
// first failure, or at upSince if that is later. At upSince the database last became available again;
// upSince may be zero.
func (t Retry) Charges(class Class, r Record, failedAt, upSince time.Time) bool {
	if class != Outage {
		return class.Charged()
	}
	since := r.First.At
	if upSince.After(since) {
		since = upSince
	}
	return !r.First.At.IsZero() && failedAt.Sub(since) >= t.OutageRetryTime
}

// Wait returns the delay before the next attempt. r must include the last failure, which has this class.
func (t Retry) Wait(class Class, r Record) time.Duration {
	charged := backoff.After(max(r.Attempts, 1), t.InitialInterval, t.MaxInterval)
	switch class {
	case UnknownVersion:
		return backoff.After(1, t.MaxInterval, t.MaxInterval)
	case Outage: // grows with the time since the first failure, because outages may not count as attempts
		d := min(max(r.Last.At.Sub(r.First.At), t.InitialInterval), t.MaxInterval, MostOutage)
		return max(charged, backoff.After(1, d, d))
	}
	return charged
}

// WaitOutage returns the delay after a number of outages in a row. It is at most 30 s plus jitter.
func (t Retry) WaitOutage(outages int) time.Duration {
	return backoff.After(outages, t.InitialInterval, min(t.MaxInterval, MostOutage))
}

// Dead returns the kind of dead letter that the work becomes, or "" if it is retried. r must include the last
// failure, which has this class.
func (t Retry) Dead(class Class, r Record) (kind string) {
	switch {
	case class == Permanent, class == Malformed, class == TooLarge:
		return string(class)
	case r.Attempts >= t.Attempts:
		return KindAttempts
	// An outage never ends the retries by age. Otherwise, after a long stop of the process, a deadlock could
	// be the last attempt.
	case class != Outage && r.Last.At.Sub(r.First.At) >= t.Age:
		return KindAge
	}
	return ""
}
