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
	mostFaults = 200 // that are told apart: an error may say anything. What is left is told by step
	eachStuck  = 10  // sagas that are stuck by one fault are told each; after that rarely, as the rest
)

// A tallyFault is what many sagas may meet, and is told rarely.
type tallyFault struct{ what, saga, step, print string }

// A said fault: how often it came, and how often since it was told last.
type said struct {
	backoff.Rarely
	times, more int
}

// faults are those that were told.
type faults struct {
	mu     sync.Mutex
	prints *failure.Fingerprints
	said   map[tallyFault]*said
}

// due tells whether a fault is to be told now, whether it is a new one, and how often it came untold.
func (f *faults) due(is tallyFault, text string, now time.Time) (due, fresh bool, more int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.prints == nil {
		f.prints, f.said = failure.NewFingerprints(), map[tallyFault]*said{}
	}
	is.print = f.prints.Of(failure.Class(is.what), is.saga, text)
	if f.said[is] == nil && len(f.said) >= mostFaults {
		is.print = ""
	}
	s := f.said[is]
	if fresh = s == nil; fresh {
		s = &said{Rarely: backoff.Seldom()}
		f.said[is] = s
	}
	s.times++
	if !s.Due(now) && (is.what != stuck || s.times > eachStuck) {
		s.more++
		return false, false, 0
	}
	more, s.more = s.more, 0
	return true, fresh && is.print != "", more
}

const (
	stuck       = "saga: stuck; see: skald saga explain NAME KEY"
	goesOn      = "saga: it cannot turn back any more, and goes on; see: skald saga explain NAME KEY"
	tallyFailed = "saga: a step failed; it is tried again; see: skald saga explain NAME KEY"
	unundone    = "saga: an undo failed; it is tried again; see: skald saga explain NAME KEY"
	turned      = "saga: turns back; see: skald saga explain NAME KEY"
	panicked    = "saga: stack of the panic"
	left        = "saga: it is left to another build"
	unstored    = "saga: the database does not take a transition, or does not show a start"
)

// told is what a line says of where a fault is; nil: it is not to be told now. Faults are told apart by
// step and not by occurrence, of which there may be many.
func (t *counters) told(what string, s store.Saga, step, occurrence, text string) (with []any) {
	due, _, more := t.faults.due(tallyFault{what: what, saga: s.Name, step: step}, text, time.Now())
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
		with = append(with, "others", more) // that failed so, since a line told of it
	}
	return with
}

// failed tells of an attempt that failed, and is made again.
func (t *counters) failed(s store.Saga, was, r *plan.Run) {
	if r.Error == "" || r.Stuck || r.Crashes <= was.Crashes && (r.Due.IsZero() || r.Due.Equal(was.Due)) {
		return
	}
	what := tallyFailed
	switch r.Phase {
	case plan.Undo:
		what = unundone
	case plan.Deciding, plan.Ready:
	default: // Due is that of a reply
		return
	}
	with := t.told(what, s, r.Step, r.Occurrence, r.Error)
	if with == nil {
		return
	}
	if !r.Due.IsZero() {
		with = append(with, "next", r.Due)
	}
	t.log.Warn(what, append(with, "attempt", max(r.Attempts, r.Crashes, 1), "error", r.Error)...)
}

// TurnedBack tells that a saga turned back, and why: louder where nobody wanted it.
func (t *counters) TurnedBack(s store.Saga, why *plan.Cause) {
	with := t.told(turned, s, why.Step, "", string(why.Why)+" "+why.Reason)
	if with == nil {
		return
	}
	with = append(with, "why", string(why.Why), "reason", why.Reason)
	if why.Why == plan.WhyFailed || why.Why == plan.WhyDeadline {
		t.log.Warn(turned, with...)
	} else {
		t.log.Info(turned, with...)
	}
}

// Alarms tells what somebody has to look at, of what was told about a saga.
func (t *counters) Alarms(s store.Saga, told []plan.Action) {
	for _, a := range told {
		if a.Verb != plan.Alarm {
			continue
		}
		t.add(&t.health.Alarms)
		what := goesOn
		if a.Stuck {
			what = stuck
		}
		if with := t.told(what, s, a.Step, a.Occurrence, a.Reason); with != nil {
			t.log.Warn(what, append(with, "why", a.Reason)...)
		}
	}
}

// Refused counts a claim of a saga that this build cannot take on.
func (t *counters) Refused(ctx context.Context, s store.Saga, why error) {
	t.add(&t.health.Refused)
	if with := t.told(left, s, "", "", why.Error()); with != nil {
		t.log.WarnContext(ctx, left, append(with, "error", why)...)
	}
}

// Unstored tells that a move could not be stored, for so often in a row, by nobody's fault.
func (t *counters) Unstored(ctx context.Context, s store.Saga, times int, err error) {
	if with := t.told(unstored, s, "", "", err.Error()); with != nil {
		t.log.WarnContext(ctx, unstored, append(with, "times", times, "error", err)...)
	}
}

// Panicked tells the stack of a panic in a function of a definition's, a frame on each line, once.
func (t *counters) Panicked(saga string, err error) {
	var p *failure.PanicError
	if !errors.As(err, &p) {
		return
	}
	value := fmt.Sprintf("%.200v", p.Value)
	_, fresh, _ := t.faults.due(tallyFault{what: panicked, saga: saga}, value, time.Now())
	if !fresh {
		return
	}
	for i, frame := range shortlog.Frames(p.Stack) {
		t.log.Error(panicked, "saga", saga, "frame", i, "at", frame, "panic", value)
	}
}
