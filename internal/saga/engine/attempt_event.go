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
	// leastWait is the shortest wait before a retry that a *skald.LaterError asks for.
	leastWait = 100 * time.Millisecond
	// versionWait is the time for which a saga waits for a build that has the saga's definition.
	versionWait = 30 * time.Second
)

// failureEvent returns the event for an error of an action.
func failureEvent(a plan.Action, err error) plan.Event {
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

// countsAsAttempt reports whether a transient failure counts as an attempt at the time now. firstFailure is
// the time of the first such failure. outageEnd is the end of the last outage, or zero if there was no
// outage.
func countsAsAttempt(uncharged time.Duration, firstFailure, now, outageEnd time.Time) bool {
	var r failure.Record
	r.First.At = firstFailure
	return failure.Retry{OutageRetryTime: uncharged}.Charges(failure.Outage, r, now, outageEnd)
}

// withoutOutput returns the event e of a step that took effect, without the output that cannot be stored.
// err is the reason.
func withoutOutput(e plan.Event, err error) plan.Event {
	if e.Output = nil; e.Reason != "" {
		err = fmt.Errorf("%s; %w", e.Reason, err)
	}
	e.Reason = err.Error()
	return e
}
