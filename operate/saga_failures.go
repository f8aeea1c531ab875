package operate

import (
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
)

// StepFailure is a failed attempt of a step of a saga, or of the undo of a step. The state of a saga has the
// last 10 failures of each step, and at most 32 KiB of failures. The JSON field names are stable.
type StepFailure struct {
	At    time.Time `json:"at"`
	Undo  bool      `json:"undo,omitempty"`
	Error string    `json:"error"` // at most 1 KiB
}

// Text describes the failed attempt of a step with this name.
func (f *StepFailure) Text(step string) string {
	if f.Undo {
		return "the undo of " + step + " failed"
	}
	return "step " + step + " failed"
}

// stepFailures returns the failed attempts of one run.
func stepFailures(st *plan.State, run int) (out []StepFailure) {
	for _, f := range st.FailuresOf(run) {
		out = append(out, StepFailure{At: f.At, Undo: f.Undo, Error: f.Error})
	}
	return out
}
