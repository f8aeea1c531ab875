package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// take applies e to the state.
func (w *work) take(e Event) Outcome {
	switch e.What {
	case Tick:
		return w.tick()
	case Signal:
		return w.signal(e)
	case Cancel:
		return w.cancel(e)
	case Recall:
		return w.recall(e)
	case Pause, Resume:
		return w.pause(e.What == Pause)
	case Retry:
		if e.Step == "" {
			return w.retryAll()
		}
	case Alone:
		return w.noteAlone(e)
	case Turn:
		return w.checkLocks()
	}
	i := slices.IndexFunc(w.s.Runs,
		func(r Run) bool { return r.Step == e.Step && r.Occurrence == e.Occurrence })
	if i < 0 {
		return Unknown
	}
	r := &w.s.Runs[i]
	if _, known := w.p.index[r.Step]; !known {
		return Unknown
	}
	switch e.What {
	case Decided:
		return w.decided(i, e)
	case Sent:
		return w.sent(r, e)
	case Succeeded:
		return w.succeeded(r, e)
	case Rejected:
		return w.rejected(r, e)
	case Failed:
		return w.failed(r, e)
	case Crashed:
		return w.crashed(r, e)
	case UndoSent, UndoDone, UndoFailed:
		return w.undid(r, e)
	case Retry:
		return w.retry(r)
	case Complete, Skip:
		return w.byHand(r, e)
	}
	return Unknown
}

// decided replaces a run that is being decided by a run for each occurrence.
func (w *work) decided(i int, e Event) Outcome {
	r := &w.s.Runs[i]
	if r.Phase != Deciding {
		return lateOutcome(r.Phase != Dropped)
	}
	step := w.step(r)
	if !step.Each || e.Skip {
		e.Occurrences = []string{""}
	}
	if len(e.Occurrences) == 0 { // without occurrences the step is skipped
		e.Skip, e.Occurrences = true, []string{""}
	}
	runs := make([]Run, len(e.Occurrences))
	for n, occurrence := range e.Occurrences {
		runs[n] = Run{Step: r.Step, As: r.As, Occurrence: occurrence, Phase: Skipped}
		if !e.Skip {
			w.enter(&runs[n], step)
		}
	}
	w.s.Runs = slices.Replace(w.s.Runs, i, i+1, runs...)
	if step.Signal != "" { // all runs exist now, so no run can take a remaining signal
		w.s.Early = slices.DeleteFunc(slices.Clone(w.s.Early),
			func(d Data) bool { return d.Name == step.Signal })
	}
	return Taken
}

// lateOutcome returns the outcome of an event that came too late. If repeated is true, the event is a
// repetition.
func lateOutcome(repeated bool) Outcome {
	if repeated {
		return Repeat
	}
	return NotWaiting
}

// open reports whether a run may still take effect.
func (w *work) open(r *Run) bool {
	return (r.Phase == Ready || r.Phase == Waiting) && (w.s.Status == Running || r.Sent || r.Unsure)
}

func (w *work) sent(r *Run, e Event) Outcome {
	if r.Phase != Ready || !w.open(r) {
		return lateOutcome(r.Phase == Waiting || r.Phase == IsDone)
	}
	step := w.step(r)
	if step.Kind == Call && r.Sent { // the event updates the data about the request
		return note(r, e.Memo)
	}
	if e.Until.After(w.now.Add(MaxWait)) {
		return w.failed(r, Event{Reason: fmt.Sprintf("a wait until %v is too long: at most %v from now",
			e.Until.Format(time.DateOnly), MaxWait), Permanent: true})
	}
	r.Alone = false // the attempt is over; a wait cannot crash the process
	if r.Sent = step.Kind != Wait; r.Sent {
		r.Sends++
	}
	if e.Memo != nil {
		r.Memo = e.Memo
	}
	if step.Kind == Call {
		return Taken // the next action is the request
	}
	by := step.Try
	if w.s.Status == Compensating {
		by = step.Back
	}
	r.Phase, r.Due = Waiting, w.timeout(by)
	if !e.Until.IsZero() {
		r.Due = e.Until
	}
	if step.Kind == Lock {
		if end := LockEnd(r); !end.IsZero() && end.Before(r.Due) {
			r.Due = end
		}
	}
	return Taken
}

// note updates the data about a request in progress.
func note(r *Run, memo json.RawMessage) Outcome {
	if memo == nil || bytes.Equal(memo, r.Memo) {
		return Repeat
	}
	r.Memo = memo
	return Taken
}

func (w *work) succeeded(r *Run, e Event) Outcome {
	if !w.open(r) {
		return lateOutcome(r.Phase == IsDone)
	}
	w.finishRun(r, e)
	switch {
	case w.s.Status == Compensating && w.p.pivot >= 0 && w.step(r).Pivot && !w.step(r).Undo:
		// The pivot took effect and cannot be undone, so the saga continues.
		why := Cause{}
		if w.s.Cause != nil {
			why = *w.s.Cause
		}
		w.alarm(r, fmt.Sprintf("it should have turned back (%s), but its pivot had taken effect: it continues",
			why.Why))
		w.s.Status, w.s.Cause, w.s.Overdue = Running, nil, true
	case e.Reason != "" && w.s.Status == Running:
		if !w.turnBack(Cause{Why: WhyRejected, Step: r.Step, Occurrence: r.Occurrence, Reason: e.Reason}) {
			w.alarm(r, "it took effect and was rejected after that, but the pivot is passed: "+e.Reason)
		}
	}
	return Taken
}

// finishRun ends a run that took effect.
func (w *work) finishRun(r *Run, e Event) {
	r.Phase, r.Output = IsDone, e.Output
	settled(r)
}

// settled clears the fields that a run needs only while it is in progress.
func settled(r *Run) {
	r.Sent, r.Stuck, r.Unsure, r.Due, r.Error, r.Memo = false, false, false, time.Time{}, "", nil
	r.Attempts, r.Free, r.Crashes, r.Alone = 0, Free{}, 0, false
}

func (w *work) rejected(r *Run, e Event) Outcome {
	if r.Phase != Deciding && !w.open(r) {
		return lateOutcome(r.Phase == Refused)
	}
	if e.Sends != 0 && (!r.Sent || e.Sends != r.Sends) { // e is about an earlier message
		return NotWaiting
	}
	if w.s.Status == Running && w.pastPivot() {
		if r.Stuck && !r.Sent {
			return Repeat
		}
		w.record(r, e.Reason)
		r.Phase, r.Sent, r.Memo = Ready, false, nil
		w.stick(r, cut("the pivot is passed, so the saga cannot turn back after the refusal: "+e.Reason))
		return Taken
	}
	if w.s.Status == Running {
		w.record(r, e.Reason)
	}
	r.Phase = Refused
	if w.step(r).Kind == Lock && w.s.Status == Compensating { // the Lock left its queues
		r.Phase = Dropped
	}
	settled(r)
	r.Error = e.Reason
	if w.s.Status == Running {
		w.turnBack(Cause{Why: WhyRejected, Step: r.Step, Occurrence: r.Occurrence, Reason: e.Reason})
	}
	return Taken
}

// stick makes a run stuck, until an operator decides.
func (w *work) stick(r *Run, reason string) {
	r.Stuck, r.Alone, r.Due, r.Error = true, false, time.Time{}, reason
	w.alarm(r, reason)
	w.notices[len(w.notices)-1].Stuck = true
}

func (w *work) failed(r *Run, e Event) Outcome {
	if r.Phase != Deciding && !w.open(r) {
		return NotWaiting
	}
	if e.Attempt != 0 && e.Attempt != r.Attempts+1 || r.Stuck {
		return NotWaiting
	}
	if e.Stick {
		r.Unsure = true
		w.record(r, e.Reason)
		w.stick(r, e.Reason)
		w.endedWith(e.With)
		return Taken
	}
	by := w.step(r).Try
	if w.s.Status == Compensating {
		by = w.step(r).Back
	}
	if w.countAttempt(r, e, by) {
		return Taken
	}
	if w.s.Status == Compensating {
		w.stick(r, e.Reason)
		return Taken
	}
	reason := r.Error
	if w.pastPivot() {
		w.stick(r, reason)
		return Taken
	}
	if !r.Sent {
		r.Phase = Refused
		settled(r)
		r.Error = reason
	}
	w.turnBack(Cause{Why: WhyFailed, Step: r.Step, Occurrence: r.Occurrence, Reason: reason})
	return Taken
}

// countAttempt records a failed attempt, and reports whether the policy allows the run another attempt. It
// also resets the count of crashes. The attempt has returned, so earlier crashes were not caused by this
// step alone.
func (w *work) countAttempt(r *Run, e Event, policy Policy) bool {
	w.record(r, e.Reason)
	r.Crashes = 0
	if r.Error, r.Alone = e.Reason, false; e.Memo != nil {
		r.Memo = e.Memo
	}
	if e.Later > 0 && !e.Permanent {
		r.Due = w.now.Add(min(e.Later, MaxWait))
		return true
	}
	if e.Passing && !e.Permanent {
		if r.Free.Times++; r.Free.Times == 1 {
			r.Free.Since = w.now.UTC().Truncate(time.Second)
		}
		r.Due = w.now.Add(w.wait(r, policy))
		return true
	}
	r.Attempts++
	if e.Permanent || policy.Attempts > 0 && r.Attempts >= policy.Attempts {
		return false
	}
	r.Due = w.now.Add(w.wait(r, policy))
	return true
}

func (w *work) crashed(r *Run, e Event) Outcome {
	if r.Phase != Deciding && r.Phase != Undo && !(r.Phase == Ready && w.open(r)) || r.Stuck {
		return NotWaiting
	}
	w.record(r, e.Reason)
	r.Crashes++
	r.Alone = false
	r.Error = e.Reason
	if r.Crashes >= crashes {
		w.stick(r, fmt.Sprintf("it ended its process %d times: %s", r.Crashes, e.Reason))
	}
	return Taken
}

// noteAlone records that only the attempt of e.Step begins. If e.Step is "", it records that no attempt is
// in progress.
func (w *work) noteAlone(e Event) Outcome {
	out := Repeat
	for i := range w.s.Runs {
		r := &w.s.Runs[i]
		if is := e.Step != "" && r.Step == e.Step && r.Occurrence == e.Occurrence; r.Alone != is {
			r.Alone, out = is, Taken
		}
	}
	return out
}

// tick applies the current time: it ends waits and deadlines that have passed.
func (w *work) tick() Outcome {
	if w.s.Paused || w.s.Status.Final() {
		return NotWaiting
	}
	out := Repeat
	if !w.s.Deadline.IsZero() && !w.s.Deadline.After(w.now) {
		out = Taken
		w.s.Deadline = time.Time{}
		if !w.turnBack(Cause{Why: WhyDeadline}) && w.s.Status == Running {
			w.s.Overdue = true
			w.alarm(nil, "its deadline has passed, after its pivot: it continues")
		}
	}
	for i := range w.s.Runs {
		r := &w.s.Runs[i]
		if _, known := w.p.index[r.Step]; !known || r.Stuck || r.Due.IsZero() || r.Due.After(w.now) {
			continue
		}
		out = Taken
		r.Due = time.Time{}
		switch r.Phase {
		case Waiting:
			w.timedOut(r)
		case Undoing:
			w.undoFailed(r, Event{Reason: "there was no reply in time"})
		}
	}
	return out
}

// timedOut ends a wait at its timeout.
func (w *work) timedOut(r *Run) {
	step := w.step(r)
	switch {
	case step.Kind == Wait && step.Signal == "":
		w.finishRun(r, Event{})
	case step.Kind == Lock:
		w.inLine(r, step)
	case step.Kind == Wait && step.Lapses:
		r.Phase = Skipped
		settled(r)
	case step.Kind == Wait:
		w.failed(r, Event{Reason: fmt.Sprintf("no signal %s came within %v", step.Signal, step.Try.Timeout),
			Permanent: true})
	case w.s.Status == Compensating:
		reason := "there was no answer in time"
		w.record(r, reason)
		w.stick(r, reason)
	case step.Kind == Child:
		reason := fmt.Sprintf("it did not end within %v", step.Try.Timeout)
		w.record(r, reason)
		if !w.turnBack(Cause{Why: WhyFailed, Step: r.Step, Occurrence: r.Occurrence, Reason: reason}) {
			w.stick(r, reason)
		}
	default: // a command, which is sent again unless its attempts are used up
		r.Phase = Ready
		w.failed(r, Event{Reason: fmt.Sprintf("there was no reply within %v", step.Try.Timeout)})
		if r.Stuck {
			r.Phase = Waiting
		}
	}
}
