package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// locks reports whether a step locks entities, itself or in a child.
func (s Step) locks() bool { return s.Kind == Lock || s.Locks }

// Locks reports whether sagas of the plan lock entities, themselves or in children.
func (p *Plan) Locks() bool {
	return slices.ContainsFunc(p.Graph.Steps, Step.locks)
}

// LockTimeout returns the Memo of a Lock that begins to wait. It contains the end of the wait, or is nil
// without a timeout.
func LockTimeout(by Policy, now time.Time) json.RawMessage {
	if by.Timeout <= 0 {
		return nil
	}
	at, _ := json.Marshal(now.UTC().Add(min(by.Timeout, MaxWait))) // a time in this range can be encoded
	return at
}

// LockEnd returns the end of the wait of a Lock, or zero if the Lock has no timeout.
func LockEnd(r *Run) (end time.Time) {
	if json.Unmarshal(r.Memo, &end) != nil {
		return time.Time{}
	}
	return end
}

// checkLocks makes the waiting Lock steps check their entities now.
func (w *work) checkLocks() Outcome {
	out := Repeat
	for i := range w.s.Runs {
		r := &w.s.Runs[i]
		_, known := w.p.index[r.Step]
		if known && w.step(r).Kind == Lock && r.Phase == Waiting && !r.Stuck && r.Due.After(w.now) {
			r.Phase, r.Due, out = Ready, time.Time{}, Taken
		}
	}
	return out
}

// inLine ends a Lock's pause between two checks. The Lock checks again, or fails if its timeout is over.
func (w *work) inLine(r *Run, step *Step) {
	r.Phase = Ready
	if end := LockEnd(r); !end.IsZero() && !end.After(w.now) {
		w.failed(r, Event{Reason: fmt.Sprintf("its entities were not free within %v", step.Try.Timeout),
			Permanent: true})
	}
}

// NothingToUndo reports whether a saga that turns back only has to release entities.
func (p *Plan) NothingToUndo(s State) bool {
	return s.Status == Compensating && !slices.ContainsFunc(s.Runs, func(r Run) bool {
		step, known := p.Step(r.Step)
		none := r.Phase == Dropped || r.Phase == Refused || r.Phase == Skipped
		return !known || step.Kind != Lock && !none && (r.Phase != IsDone || step.Undo)
	})
}

// Holds reports whether a saga may hold entities or wait for them, itself or in a child. It is true for
// unknown steps.
func (p *Plan) Holds(s State) bool {
	return slices.ContainsFunc(s.Runs, func(r Run) bool {
		step, known := p.Step(r.Step)
		return !known || step.Kind == Lock || step.Kind == Child
	})
}
