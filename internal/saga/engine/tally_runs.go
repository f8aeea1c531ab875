package engine

import (
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// change is a run before and after a move.
type change struct{ Was, Is plan.Run }

// changed appends to list the runs whose phase or attempts differ between the states was and is.
func changed(list []change, was, is plan.State) []change {
	for i := range is.Runs {
		before, now := earlier(was, is, i), is.Runs[i]
		if before.Phase != now.Phase || before.Attempts != now.Attempts {
			list = append(list, change{before, now})
		}
	}
	return list
}

// Moved measures and logs a stored move of a saga from the state was to the state is.
func (t *counters) Moved(s store.Saga, was, is plan.State) {
	back := back(was, is)
	if back != nil {
		t.TurnedBack(s, back)
	}
	for i := range is.Runs {
		c := change{earlier(was, is, i), is.Runs[i]}
		if t.Ran(s.Name, c); back == nil {
			t.failed(s, &c.Was, &c.Is)
		}
	}
}

// back returns the cause if a saga turned back between two states, or nil.
func back(was, is plan.State) *plan.Cause {
	if was.Cause != nil {
		return nil
	}
	return is.Cause
}

// Ran measures a change of one run.
func (t *counters) Ran(saga string, c change) {
	switch {
	case c.Is.Phase == c.Was.Phase:
		t.metrics.Failed(saga, c.Is.Step, c.Is.Attempts-c.Was.Attempts)
	case settled(c.Is.Phase):
		t.metrics.Stepped(saga, c.Is.Step, string(c.Is.Phase), took(c.Was.At, c.Is.At))
	}
}

// earlier returns the state in was of the run with index i in is.
func earlier(was, is plan.State, i int) plan.Run {
	r := &is.Runs[i]
	if i < len(was.Runs) && was.Runs[i].Step == r.Step && was.Runs[i].Occurrence == r.Occurrence {
		return was.Runs[i]
	}
	if other, there := was.Run(r.Step, r.Occurrence); there { // a new definition may have moved the run
		return other
	}
	return plan.Run{At: r.At}
}

// settled reports whether the phase is final for a step, or for its undo.
func settled(p plan.Phase) bool {
	switch p {
	case plan.IsDone, plan.Skipped, plan.Refused, plan.Dropped, plan.Undone:
		return true
	}
	return false
}

func took(from, to time.Time) time.Duration {
	if from.IsZero() || to.IsZero() {
		return 0
	}
	return to.Sub(from)
}
