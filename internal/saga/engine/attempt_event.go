package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/internal/saga/plan"
)

const (
	// leastWait is how soon an attempt that is not charged is made again.
	leastWait = 100 * time.Millisecond
	// versionWait is how long a saga waits for another build, which knows what this one does not.
	versionWait = 30 * time.Second
)

// failed is the event of an error.
func failed(a plan.Action, err error) plan.Event {
	e := plan.Event{What: plan.Failed, Step: a.Step, Occurrence: a.Occurrence, Attempt: a.Attempt,
		Reason: err.Error()}
	if a.Verb == plan.UndoStep {
		e.What = plan.UndoFailed
	}
	var (
		no      *skald.RejectedError
		never   *skald.PermanentError
		later   *skald.LaterError
		version *skald.VersionError
	)
	switch {
	case failure.IsOutage(err):
		e.Passing = true
	case errors.As(err, &no) && a.Verb == plan.RunStep:
		e.What, e.Attempt = plan.Rejected, 0
	case errors.As(err, &no), errors.As(err, &never):
		e.Permanent = true
	case errors.As(err, &later):
		e.Later = max(later.After, leastWait)
	case errors.As(err, &version):
		e.Later = versionWait
	}
	return e
}

// charges reports whether a failure by what may pass is charged now, where the first one was at since and the
// database came back last at that time. Zero: there was no such failure; it was not away.
func charges(uncharged time.Duration, since, now, back time.Time) bool {
	var r failure.Record
	r.First.At = since
	return failure.Retry{Uncharged: uncharged}.Charges(failure.Outage, r, now, back)
}

// without is an event of what took effect, and whose output cannot be kept: err says why.
func without(e plan.Event, err error) plan.Event {
	if e.Output = nil; e.Reason != "" {
		err = fmt.Errorf("%s; %w", e.Reason, err)
	}
	e.Reason = err.Error()
	return e
}
