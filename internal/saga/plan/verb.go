package plan

import (
	"fmt"
	"time"
)

func (w *work) cancel(e Event) Outcome {
	switch {
	case w.s.Status == Compensating, w.s.Status == Compensated:
		return Repeat
	case !w.turnBack(Cause{Why: WhyCancel, Reason: e.Reason}):
		return TooLate
	}
	return Taken
}

// recall undoes a child that may be done already. It returns TooLate if the child has a pivot.
func (w *work) recall(e Event) Outcome {
	switch {
	case w.s.Status != Done:
		return w.cancel(e)
	case w.p.pivot >= 0:
		return TooLate
	}
	w.s.Status, w.s.Cause = Compensating, &Cause{Why: WhyRecall, Reason: e.Reason}
	return Taken
}

func (w *work) pause(on bool) Outcome {
	if w.s.Status.Final() {
		return NotWaiting
	}
	if w.s.Paused == on {
		return Repeat
	}
	w.s.Paused = on
	return Taken
}

// retry makes a run due now, and restores all its attempts.
func (w *work) retry(r *Run) Outcome {
	waits := !r.Due.IsZero() && (r.Phase == Deciding || r.Phase == Ready || r.Phase == Undo)
	if !r.Stuck && !waits {
		return lateOutcome(r.Phase == Ready || r.Phase == Undo)
	}
	if r.Unsure && w.s.Status == Compensating && !r.Sent { // the run may have taken effect
		return NotWaiting
	}
	r.Stuck, r.Unsure, r.Attempts, r.Crashes, r.Alone, r.Due = false, false, 0, 0, false, time.Time{}
	r.Free = Free{}
	switch step := w.step(r); {
	case step.Kind == Lock:
		r.Memo = nil // so that the timeout starts again
	case r.Phase != Waiting:
	case w.s.Status == Compensating:
		r.Due = w.timeout(step.Back)
	case step.Kind == Command:
		r.Phase = Ready
	default: // a child or a signal, for which only the wait can be repeated
		r.Due = w.timeout(step.Try)
	}
	return Taken
}

func (w *work) retryAll() Outcome {
	out := Repeat
	for i := range w.s.Runs {
		r := &w.s.Runs[i]
		if _, known := w.p.index[r.Step]; known && r.Stuck && w.retry(r) == Taken {
			out = Taken
		}
	}
	return out
}

// byHand ends a run, or its undo, because an operator decided so.
func (w *work) byHand(r *Run, e Event) Outcome {
	switch {
	case r.Phase == Undo || r.Phase == Undoing:
		w.undone(r)
		r.Error = e.Reason
		return Taken
	case r.Phase != Deciding && r.Phase != Ready && r.Phase != Waiting:
		return lateOutcome(r.Phase == IsDone || r.Phase == Skipped || r.Phase == Undone)
	case e.What == Skip && r.Sent && w.s.Status == Running && w.mayHaveEffect(r):
		return Runs
	case e.What == Complete && r.Sent && w.s.Status == Running && w.step(r).Locks:
		return Runs // the child would lose its entities
	case e.What == Complete && r.Phase == Deciding && w.step(r).Each:
		return Unknown // the occurrence is unknown
	case e.What == Complete:
		if w.s.Status == Compensating && !w.open(r) {
			return NotWaiting
		}
		return w.completed(r, e)
	}
	settled(r)
	r.Phase, r.Error = Skipped, e.Reason
	if w.s.Status == Compensating { // the step counts as never done
		r.Phase = Refused
	}
	return Taken
}

// mayHaveEffect reports whether a run may have an effect that nothing would undo after a skip. This may be
// the effect of a child or a call. A skipped command is undone.
func (w *work) mayHaveEffect(r *Run) bool {
	step := w.step(r)
	return step.Kind == Child || step.Kind == Call && step.Undo
}

func (w *work) completed(r *Run, e Event) Outcome {
	if r.Phase == Deciding {
		r.Phase = Ready
	}
	if w.step(r).Kind == Child && r.Sent { // the undo needs the child's key
		e.Output = r.Memo
	}
	out := w.succeeded(r, Event{Output: e.Output})
	if out != Taken {
		return out
	}
	if e.Reason != "" {
		r.Error = fmt.Sprintf("completed by hand: %s", e.Reason)
	}
	return out
}
