package engine

import (
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// change is a run before and after a move.
type change struct{ Was, Is plan.Run }

// changed appends to list the runs whose phase or attempts differ between the states old and current.
func changed(list []change, old, current plan.State) []change {
	for i := range current.Runs {
		before, now := earlierRun(old, current, i), current.Runs[i]
		if before.Phase != now.Phase || before.Attempts != now.Attempts {
			list = append(list, change{before, now})
		}
	}
	return list
}

// Moved measures and logs a stored move of a saga from the state old to the state current.
func (t *counters) Moved(s store.Saga, old, current plan.State) {
	back := turnCause(old, current)
	if back != nil {
		t.TurnedBack(s, back)
	}
	for i := range current.Runs {
		c := change{earlierRun(old, current, i), current.Runs[i]}
		if t.Ran(s.Name, c); back == nil {
			t.logRetry(s, &c.Was, &c.Is)
		}
	}
}

// turnCause returns the cause if a saga turned back between the states old and current, or nil.
func turnCause(old, current plan.State) *plan.Cause {
	if old.Cause != nil {
		return nil
	}
	return current.Cause
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

// earlierRun returns the state, in the state old, of the run with index i in the state current.
func earlierRun(old, current plan.State, i int) plan.Run {
	r := &current.Runs[i]
	if i < len(old.Runs) && old.Runs[i].Step == r.Step && old.Runs[i].Occurrence == r.Occurrence {
		return old.Runs[i]
	}
	if other, there := old.Run(r.Step, r.Occurrence); there { // a new definition may have moved the run
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
