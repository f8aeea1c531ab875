package engine

import (
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
)

// measure tells what a transition that is stored did to the steps of a saga: what has changed between two
// states.
func (e *Engine[TTx]) measure(saga string, was, is plan.State) {
	for i := range is.Runs {
		r := &is.Runs[i]
		before := plan.Run{At: r.At}
		if i < len(was.Runs) && was.Runs[i].Step == r.Step && was.Runs[i].Occurrence == r.Occurrence {
			before = was.Runs[i]
		} else if other, there := was.Run(r.Step, r.Occurrence); there { // the definition is another one
			before = other
		}
		switch {
		case r.Phase == before.Phase:
			e.metrics.Failed(saga, r.Step, r.Attempts-before.Attempts)
		case settled(r.Phase):
			e.metrics.Stepped(saga, r.Step, string(r.Phase), took(before.At, r.At))
		}
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
