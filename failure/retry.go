package failure

import (
	"time"

	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/store"
)

// A Retry says when failed work is tried again, and when it becomes a dead letter.
type Retry struct {
	First, Most time.Duration // waits between attempts: doubled from First to Most, with jitter
	Attempts    int           // charged failures after which it is a dead letter
	Age         time.Duration // since the first failure, after which it is a dead letter
	// Uncharged is how long failures of the class Outage are free, from the first failure on.
	Uncharged time.Duration
}

// MostOutage is the longest wait after an outage or for a rival.
const MostOutage = 30 * time.Second

// A Record is what is known of the failed attempts at one piece of work.
type Record struct {
	Attempts    int // that were charged
	First, Last store.Failure
}

// Add notes one more failed attempt.
func (r *Record) Add(f store.Failure, charged bool) {
	r.Last = f
	if r.First.At.IsZero() {
		r.First = f
	}
	if charged {
		r.Attempts++
	}
}

// Charges reports whether a failure of this class counts towards Attempts, at that time and after what r has
// noted. One of the class Outage counts once the work has failed for Uncharged, while its database was there:
// up is when that came back last, zero if it was not away.
func (t Retry) Charges(class Class, r Record, at, up time.Time) bool {
	if class != Outage {
		return class.Charged()
	}
	since := r.First.At
	if up.After(since) {
		since = up
	}
	return !r.First.At.IsZero() && at.Sub(since) >= t.Uncharged
}

// Wait returns how long to wait before the next attempt, after a failure of this class that r has noted.
func (t Retry) Wait(class Class, r Record) time.Duration {
	charged := backoff.After(max(r.Attempts, 1), t.First, t.Most)
	switch class {
	case UnknownVersion:
		return backoff.After(1, t.Most, t.Most)
	case Outage: // as long as it has failed: nobody counts free attempts
		d := min(max(r.Last.At.Sub(r.First.At), t.First), t.Most, MostOutage)
		return max(charged, backoff.After(1, d, d))
	}
	return charged
}

// WaitOutage returns how long to wait after so many outages in a row, 30 s (and jitter) at most.
func (t Retry) WaitOutage(outages int) time.Duration {
	return backoff.After(outages, t.First, min(t.Most, MostOutage))
}

// Dead returns the kind of dead letter that the work becomes by a failure of this class, which r has noted;
// "": it is tried again.
func (t Retry) Dead(class Class, r Record) (kind string) {
	switch {
	case class == Permanent, class == Malformed, class == TooLarge:
		return string(class)
	case r.Attempts >= t.Attempts:
		return KindAttempts
	case class != Outage && r.Last.At.Sub(r.First.At) >= t.Age: // no deadlock after a long stop is the last
		return KindAge
	}
	return ""
}
