package plan

import "time"

// turnBack begins to compensate. It returns false if the pivot is done or the saga is not running.
func (w *work) turnBack(why Cause) bool {
	if w.s.Status != Running || w.pastPivot() {
		return false
	}
	w.s.Status, w.s.Cause, w.s.Deadline, w.s.Early = Compensating, &why, time.Time{}, nil
	for i := range w.s.Runs {
		w.leave(&w.s.Runs[i])
	}
	w.beginEnded()
	return true
}

// leave ends a run of a saga that turns back, if the run certainly has no effect. Otherwise the run must be
// settled first, or an operator must decide.
func (w *work) leave(r *Run) {
	_, known := w.p.index[r.Step]
	if !known || r.Unsure || r.Phase != Deciding && r.Phase != Ready && r.Phase != Waiting {
		return
	}
	step := w.step(r)
	if !r.Sent || step.Kind == Command && !step.Undo && !step.Pivot { // no effect, now or later
		reason := r.Error
		settled(r)
		r.Phase, r.Error = Dropped, reason
		return
	}
	r.Stuck, r.Attempts, r.Free, r.Due = false, 0, Free{}, time.Time{}
	switch {
	case step.Kind != Command:
		r.Phase = Ready
	default: // the undo settles a command at the participant; without an undo the reply does
		r.Phase = Waiting
		if !step.Undo {
			r.Due = w.timeout(step.Back)
		}
	}
}

// unsettled reports whether it is unknown if a run took effect, so that no undo may run yet.
func (w *work) unsettled(r *Run) bool {
	if r.Phase != Ready && r.Phase != Waiting {
		return false
	}
	step := w.step(r)
	return step.Kind != Command || !step.Undo
}

// undoNext begins the next undo. It undoes one run at a time, in the reverse order of their beginnings. It
// waits until all runs are settled.
func (w *work) undoNext() {
	for i := range w.s.Runs {
		if _, known := w.p.index[w.s.Runs[i].Step]; known && w.unsettled(&w.s.Runs[i]) {
			return
		}
	}
	for i := len(w.s.Runs) - 1; i >= 0; i-- {
		r := &w.s.Runs[i]
		if _, known := w.p.index[r.Step]; !known {
			continue
		}
		switch r.Phase {
		case Undo, Undoing:
			return
		case IsDone, Waiting, Skipped:
			step := w.step(r)
			// A skipped command that was sent may have taken effect. Its undo settles that.
			if step.Undo && (r.Phase != Skipped || step.Kind == Command && r.Sends > 0) {
				settled(r)
				r.Phase = Undo
				w.stickEnded(r, true)
				return
			}
		}
	}
	w.finish(Compensated)
}

// undid applies an event of an undo.
func (w *work) undid(r *Run, e Event) Outcome {
	if r.Phase != Undo && r.Phase != Undoing {
		return lateOutcome(r.Phase == Undone)
	}
	switch e.What {
	case UndoSent:
		if r.Phase == Undoing {
			return Repeat
		}
		if r.Sent {
			return note(r, e.Memo)
		}
		r.Sent, r.Alone, r.Memo = true, false, e.Memo
		r.Sends++
		if w.step(r).Kind != Call {
			r.Phase, r.Due = Undoing, w.timeout(w.step(r).Back)
		}
	case UndoDone:
		w.undone(r)
	case UndoFailed:
		if e.Sends != 0 && (!r.Sent || e.Sends != r.Sends) { // e is about an earlier command
			return lateOutcome(r.Stuck && e.Sends == r.Sends)
		}
		if e.Attempt != 0 && e.Attempt != r.Attempts+1 || r.Stuck && !e.Permanent {
			return NotWaiting
		}
		w.undoFailed(r, e)
		w.endedWith(e.With)
	}
	return Taken
}

func (w *work) undone(r *Run) {
	settled(r)
	r.Phase = Undone
}

func (w *work) undoFailed(r *Run, e Event) {
	if r.Phase == Undoing {
		r.Phase, r.Sent = Undo, false
	}
	if !w.countAttempt(r, e, w.step(r).Back) {
		w.stick(r, e.Reason)
	}
}
