package engine

import (
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
)

// measure tells what a transition that is stored did to the steps of a saga: what has changed between two
// states.
func (e *Engine[TTx]) measure(saga string, was, is plan.State) {
	for i := range is.Runs {
		e.measureRun(saga, earlier(was, is, i), is.Runs[i])
	}
}

// earlier is how a run of is stood in was.
func earlier(was, is plan.State, i int) plan.Run {
	r := &is.Runs[i]
	if i < len(was.Runs) && was.Runs[i].Step == r.Step && was.Runs[i].Occurrence == r.Occurrence {
		return was.Runs[i]
	}
	if other, there := was.Run(r.Step, r.Occurrence); there { // the definition is another one
		return other
	}
	return plan.Run{At: r.At}
}

func (e *Engine[TTx]) measureRun(saga string, was, is plan.Run) {
	switch {
	case is.Phase == was.Phase:
		e.metrics.Failed(saga, is.Step, is.Attempts-was.Attempts)
	case settled(is.Phase):
		e.metrics.Stepped(saga, is.Step, string(is.Phase), took(was.At, is.At))
	}
}

// settled tells whether a run has come to an outcome, of the step or of its undo.
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
