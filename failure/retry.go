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

// Wait returns how long to wait before the next attempt, after a failure of this class that r has noted.
func (t Retry) Wait(class Class, r Record) time.Duration {
	if class == UnknownVersion {
		return backoff.After(1, t.Most, t.Most)
	}
	return backoff.After(max(r.Attempts, 1), t.First, t.Most)
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
	case r.Last.At.Sub(r.First.At) >= t.Age:
		return KindAge
	}
	return ""
}
