package plan

import (
	"cmp"
	"slices"
	"time"
)

// Limits of State.Failures. The oldest failures beyond them are removed.
const (
	MaxFailures     = 10       // number for one run
	MaxFailureBytes = 32 << 10 // size of all failures as JSON

	ofFailure = 96 // size of a failure as JSON, without its texts
)

// Failure is a failed attempt of a run, or of its undo.
type Failure struct {
	Step       string    `json:"step"`
	Occurrence string    `json:"occurrence,omitempty"`
	Undo       bool      `json:"undo,omitempty"`
	At         time.Time `json:"at"` // by the engine's clock
	Error      string    `json:"error"`
}

// record adds a failed attempt of r to the failures.
func (w *work) record(r *Run, reason string) {
	all := append(slices.Clip(w.s.Failures), Failure{Step: r.Step, Occurrence: r.Occurrence,
		Undo: r.Phase == Undo || r.Phase == Undoing, At: w.now.UTC().Truncate(time.Millisecond),
		Error: cmp.Or(reason, "it was refused")})
	same := func(f Failure) bool { return f.Step == r.Step && f.Occurrence == r.Occurrence }
	n, bytes := 0, 0
	for _, f := range all {
		if same(f) {
			n++
		}
	}
	if n > MaxFailures {
		first := slices.IndexFunc(all, same)
		all = slices.Delete(all, first, first+1)
	}
	for i, f := range slices.Backward(all) {
		bytes += ofFailure + textBytes(f.Step) + textBytes(f.Occurrence) + textBytes(f.Error)
		if bytes > MaxFailureBytes {
			all = all[i+1:]
			break
		}
	}
	w.s.Failures = all
}

// FailuresOf returns the last failed attempts of Runs[i] and of its undo, oldest first. Failures of the
// condition and the occurrences belong to the first run of the step.
func (s State) FailuresOf(i int) (out []Failure) {
	r := &s.Runs[i]
	first := slices.IndexFunc(s.Runs, func(other Run) bool { return other.Step == r.Step }) == i
	for _, f := range s.Failures {
		if f.Step == r.Step && (f.Occurrence == r.Occurrence || first && f.Occurrence == "") {
			out = append(out, f)
		}
	}
	return out
}
