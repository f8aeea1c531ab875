package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// locks tells whether a step locks entities, itself or in a child.
func (s Step) locks() bool { return s.Kind == Lock || s.Locks }

// Locks tells whether sagas of the plan lock entities, themselves or in children.
func (p *Plan) Locks() bool {
	return slices.ContainsFunc(p.Graph.Steps, Step.locks)
}

// LockTimeout is the Memo of a Lock that begins to wait: when its time is up. Nil: never.
func LockTimeout(by Policy, now time.Time) json.RawMessage {
	if by.Timeout <= 0 {
		return nil
	}
	at, _ := json.Marshal(now.UTC().Add(min(by.Timeout, MaxWait))) // a time of these years is JSON
	return at
}

// LockEnd is when the time of a Lock that waits is up. Zero: never.
func LockEnd(r *Run) (end time.Time) {
	if json.Unmarshal(r.Memo, &end) != nil {
		return time.Time{}
	}
	return end
}

// turn has a Lock that waits look again, unless it is due anyway: its time may be up.
func (w *work) turn() Outcome {
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

// inLine is what becomes of a Lock that has waited for a while: it looks again, or its time is up.
func (w *work) inLine(r *Run, step *Step) {
	r.Phase = Ready
	if end := LockEnd(r); !end.IsZero() && !end.After(w.now) {
		w.failed(r, Event{Reason: fmt.Sprintf("its entities were not free within %v", step.Try.Timeout),
			Permanent: true})
	}
}

// Unbegun tells of a saga that turns back that it only has to give up entities: nothing else is undone.
func (p *Plan) Unbegun(s State) bool {
	return s.Status == Compensating && !slices.ContainsFunc(s.Runs, func(r Run) bool {
		step, known := p.Step(r.Step)
		none := r.Phase == Dropped || r.Phase == Refused || r.Phase == Skipped
		return !known || step.Kind != Lock && !none && (r.Phase != IsDone || step.Undo)
	})
}

// Holds tells whether a saga may hold entities, or stand in line for some, itself or for its children.
func (p *Plan) Holds(s State) bool {
	return slices.ContainsFunc(s.Runs, func(r Run) bool {
		step, known := p.Step(r.Step)
		return !known || step.Kind == Lock || step.Kind == Child
	})
}
