package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/store"
)

const (
	mostFaults = 200 // faults with their own log lines; further faults are grouped by step
	eachStuck  = 10  // lines without a rate limit about sagas that the same fault made stuck
)

// tallyFault identifies a kind of fault. Many sagas may have the same fault, so its log lines are
// rate-limited.
type tallyFault struct{ what, saga, step, print string }

// faultCount counts the occurrences of a fault: all of them, and those since the last log line.
type faultCount struct {
	backoff.LogLimit
	times, more int
}

// faults has the counts of all faults. It is safe for concurrent use.
type faults struct {
	mu     sync.Mutex
	prints *failure.Fingerprints
	counts map[tallyFault]*faultCount
}

// count counts a fault, and reports with logNow whether the caller should log it. The result fresh is true
// for a new fault. The result unlogged is the number of occurrences since the last log line.
func (f *faults) count(fault tallyFault, text string, now time.Time) (logNow, fresh bool, unlogged int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.prints == nil {
		f.prints, f.counts = failure.NewFingerprints(), map[tallyFault]*faultCount{}
	}
	fault.print = f.prints.Of(failure.Class(fault.what), fault.saga, text)
	if f.counts[fault] == nil && len(f.counts) >= mostFaults {
		fault.print = ""
	}
	s := f.counts[fault]
	if fresh = s == nil; fresh {
		s = &faultCount{LogLimit: backoff.NewLogLimit()}
		f.counts[fault] = s
	}
	s.times++
	if !s.Due(now) && (fault.what != stuck || s.times > eachStuck) {
		s.more++
		return false, false, 0
	}
	unlogged, s.more = s.more, 0
	return true, fresh && fault.print != "", unlogged
}

const (
	stuck       = "saga: stuck; see: skald saga explain NAME KEY"
	goesOn      = "saga: it can no longer turn back, and continues; see: skald saga explain NAME KEY"
	tallyFailed = "saga: a step failed; it is retried; see: skald saga explain NAME KEY"
	unundone    = "saga: an undo failed; it is retried; see: skald saga explain NAME KEY"
	turned      = "saga: turns back; see: skald saga explain NAME KEY"
	panicked    = "saga: stack of the panic"
	left        = "saga: a saga is left to another build"
	unstored    = "saga: the database does not store a transition, or does not show a start"
)

// line returns the attributes of a log line, or nil if the fault is not to be logged now. Faults are counted
// by step and not by occurrence, because a step may have many occurrences.
func (t *counters) line(what string, s store.Saga, step, occurrence, text string) (with []any) {
	due, _, more := t.faults.count(tallyFault{what: what, saga: s.Name, step: step}, text, time.Now())
	if !due {
		return nil
	}
	if with = []any{"saga", s.Name, "key", s.Key}; step != "" {
		with = append(with, "step", step)
	}
	if occurrence != "" {
		with = append(with, "occurrence", occurrence)
	}
	if more > 0 {
		with = append(with, "others", more) // failures without a log line since the last one
	}
	return with
}

// logRetry logs an attempt that failed and is retried.
func (t *counters) logRetry(s store.Saga, was, r *plan.Run) {
	if r.Error == "" || r.Stuck || r.Crashes <= was.Crashes && (r.Due.IsZero() || r.Due.Equal(was.Due)) {
		return
	}
	what := tallyFailed
	switch r.Phase {
	case plan.Undo:
		what = unundone
	case plan.Deciding, plan.Ready:
	default: // in other phases, Due is the deadline of a reply
		return
	}
	with := t.line(what, s, r.Step, r.Occurrence, r.Error)
	if with == nil {
		return
	}
	if !r.Due.IsZero() {
		with = append(with, "next", r.Due)
	}
	t.log.Warn(what, append(with, "attempt", max(r.Attempts, r.Crashes, 1), "error", r.Error)...)
}

// TurnedBack logs that a saga turned back, and the cause. Failures and deadlines are warnings.
func (t *counters) TurnedBack(s store.Saga, cause *plan.Cause) {
	with := t.line(turned, s, cause.Step, "", string(cause.Why)+" "+cause.Reason)
	if with == nil {
		return
	}
	with = append(with, "why", string(cause.Why), "reason", cause.Reason)
	if cause.Why == plan.WhyFailed || cause.Why == plan.WhyDeadline {
		t.log.Warn(turned, with...)
	} else {
		t.log.Info(turned, with...)
	}
}

// Alarms logs the alarms among the notices about a saga.
func (t *counters) Alarms(s store.Saga, notices []plan.Action) {
	for _, a := range notices {
		if a.Verb != plan.Alarm {
			continue
		}
		t.add(&t.health.Alarms)
		what := goesOn
		if a.Stuck {
			what = stuck
		}
		if with := t.line(what, s, a.Step, a.Occurrence, a.Reason); with != nil {
			t.log.Warn(what, append(with, "why", a.Reason)...)
		}
	}
}

// Refused counts and logs a claim of a saga that this build cannot run.
func (t *counters) Refused(ctx context.Context, s store.Saga, why error) {
	t.add(&t.health.Refused)
	if with := t.line(left, s, "", "", why.Error()); with != nil {
		t.log.WarnContext(ctx, left, append(with, "error", why)...)
	}
}

// Unstored logs that a move could not be stored for a reason outside the saga's actions. The argument
// failures is the number of consecutive failures.
func (t *counters) Unstored(ctx context.Context, s store.Saga, failures int, err error) {
	if with := t.line(unstored, s, "", "", err.Error()); with != nil {
		t.log.WarnContext(ctx, unstored, append(with, "times", failures, "error", err)...)
	}
}

// Panicked logs the stack of a panic in a function of a definition, one frame on each line. It logs each
// panic once.
func (t *counters) Panicked(saga string, err error) {
	var p *failure.PanicError
	if !errors.As(err, &p) {
		return
	}
	value := fmt.Sprintf("%.200v", p.Value)
	_, fresh, _ := t.faults.count(tallyFault{what: panicked, saga: saga}, value, time.Now())
	if !fresh {
		return
	}
	for i, frame := range shortlog.Frames(p.Stack) {
		t.log.Error(panicked, "saga", saga, "frame", i, "at", frame, "panic", value)
	}
}
