package plan_test

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/skald-go/skald/internal/saga/plan"
)

// move performs one random event of a saga.
func (w *world) move() {
	switch rapid.SampledFrom([]string{"act", "act", "act", "act", "answer", "answer", "tick", "signal",
		"cancel", "again", "pause", "retry", "skip"}).Draw(w.t, "move") {
	case "act":
		if todo := w.p.Pending(w.s); len(todo) > 0 {
			w.act(rapid.SampledFrom(todo).Draw(w.t, "action"))
		}
	case "answer":
		w.answer()
	case "tick":
		if next := w.s.Next(); !next.IsZero() {
			w.now = later(w.now, next)
		}
		w.feed(plan.Event{What: plan.Tick})
	case "signal":
		if s := rapid.SampledFrom(w.p.Graph.Steps).Draw(w.t, "signal"); s.Signal != "" {
			w.feed(plan.Event{What: plan.Signal, Name: s.Signal, Output: output(s.Name)})
		}
	case "cancel":
		if rapid.IntRange(0, 3).Draw(w.t, "cancel") == 0 {
			w.feed(plan.Event{What: plan.Cancel})
		}
	case "again":
		if len(w.past) > 0 {
			e := rapid.SampledFrom(w.past).Draw(w.t, "past")
			if out := w.feedPast(e); out.Changed() && e.What != plan.Failed && e.What != plan.UndoFailed {
				w.t.Fatalf("%+v was taken again: %s", e, stateText(w.s))
			}
		}
	case "pause":
		if w.s.Paused {
			w.feed(plan.Event{What: plan.Resume})
		} else if rapid.IntRange(0, 3).Draw(w.t, "pause") == 0 {
			w.feed(plan.Event{What: plan.Pause})
		}
	case "retry":
		w.lookAfter()
		w.feed(plan.Event{What: plan.Retry})
	case "skip":
		for _, r := range w.s.Runs {
			if r.Stuck && !r.Unsure && rapid.IntRange(0, 3).Draw(w.t, "skip") == 0 {
				w.byHand, w.truths[key{r.Step, r.Occurrence}].settled = true, true
				w.feed(plan.Event{What: plan.Skip, Step: r.Step, Occurrence: r.Occurrence})
				return
			}
		}
	}
}

// lookAfter plays an operator who settles the runs that may have taken effect.
func (w *world) lookAfter() {
	for _, r := range w.s.Runs {
		if !r.Unsure {
			continue
		}
		tr, e := w.truths[key{r.Step, r.Occurrence}], plan.Event{Step: r.Step, Occurrence: r.Occurrence}
		switch tr.settled = true; {
		case tr.effect == 1:
			e.What, e.Output = plan.Complete, output(r.Step)
		case w.s.Status == plan.Compensating:
			e.What = plan.Skip
		default:
			e.What = plan.Retry
		}
		if out := w.feed(e); out != plan.Taken {
			w.t.Fatalf("%+v of what may stand is %s: %s", e, out, stateText(w.s))
		}
	}
}

// feedPast repeats an earlier event. It skips events that name an attempt, because the number now belongs to
// another attempt.
func (w *world) feedPast(e plan.Event) plan.Outcome {
	switch e.What {
	case plan.Failed, plan.UndoFailed, plan.Skip, plan.Complete, plan.Cancel, plan.Signal, plan.Crashed,
		plan.Decided, plan.Sent, plan.UndoSent:
		return plan.NotWaiting // these are bound to attempts, operators, or the engine's guard
	}
	if e.What == plan.Rejected && e.Sends == 0 { // from an engine
		return plan.NotWaiting
	}
	return w.feed(e)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// goes draws whether an action succeeds. At the end of a run all actions succeed.
func (w *world) goes(what string) bool {
	return w.stop || rapid.IntRange(0, 3).Draw(w.t, what) > 0
}

// act performs an action in a world where answers are lost.
func (w *world) act(a plan.Action) {
	e := plan.Event{Step: a.Step, Occurrence: a.Occurrence, Attempt: a.Attempt, Reason: "r"}
	tr := w.truths[key{a.Step, a.Occurrence}]
	step := w.step(a.Step)
	switch a.Verb {
	case plan.DecideStep:
		w.decide(e, step, tr)
	case plan.RunStep:
		w.run(e, step, tr, a)
	case plan.SettleStep:
		w.settle(e, step, tr)
	case plan.UndoStep:
		w.undo(e, step, tr, a)
	}
}

func (w *world) decide(e plan.Event, step plan.Step, tr *truth) {
	if !w.goes("decide") {
		e.What = plan.Failed
		w.feed(e)
		return
	}
	e.What, e.Skip = plan.Decided, step.When && rapid.Bool().Draw(w.t, "condition")
	if step.Each && !e.Skip {
		for i := range rapid.IntRange(0, 3).Draw(w.t, "occurrences") {
			e.Occurrences = append(e.Occurrences, fmt.Sprint(i))
		}
	}
	if len(e.Occurrences) > 0 {
		delete(w.truths, key{step.Name, ""})
	}
	w.feed(e)
	_ = tr
}

func (w *world) run(e plan.Event, step plan.Step, tr *truth, a plan.Action) {
	if !a.Sent && rapid.IntRange(0, 7).Draw(w.t, "crash") == 0 && !w.stop {
		e.What = plan.Crashed
		w.feed(e)
		return
	}
	switch {
	case step.Kind == plan.Do:
		w.local(e, tr)
	case !a.Sent || step.Kind == plan.Command:
		if !w.goes("send") {
			e.What = plan.Failed
			w.feed(e)
			return
		}
		e.What, e.Reason = plan.Sent, ""
		if step.Kind == plan.Wait {
			e.Until = w.now.Add(time.Hour)
		}
		if w.feed(e) == plan.Taken && step.Kind != plan.Wait {
			tr.sent, tr.settled = true, false
		}
	default: // the request of a call
		w.request(e, tr)
	}
}

func (w *world) local(e plan.Event, tr *truth) {
	if !w.stop && rapid.IntRange(0, 7).Draw(w.t, "ends its transaction") == 0 {
		tr.sent, tr.settled = true, false
		tr.effect = rapid.IntRange(0, 1).Draw(w.t, "stands")
		e.What, e.Stick, e.Permanent = plan.Failed, true, true
		w.feed(e)
		return
	}
	switch {
	case w.goes("do"):
		e.What, e.Reason, e.Output = plan.Succeeded, "", output(e.Step)
	case rapid.Bool().Draw(w.t, "reject"):
		e.What = plan.Rejected
	default:
		e.What = plan.Failed
	}
	// The effect is committed together with the state: it exists if the event is taken. The saga's next
	// actions already see the effect.
	if e.What == plan.Succeeded {
		tr.effect++
		tr.settled = true
	}
	if out := w.feed(e); out != plan.Taken {
		w.t.Fatalf("%+v of a pending action is %s", e, out)
	}
}

// request repeats a request to a provider that deduplicates by key. Its answer may be lost.
func (w *world) request(e plan.Event, tr *truth) {
	if tr.effect == 0 && !tr.barred && w.goes("provider") {
		tr.effect = 1
	}
	switch {
	case !w.goes("answer"):
		e.What = plan.Failed
	case tr.effect == 1:
		e.What, e.Output, tr.settled = plan.Succeeded, output(e.Step), true
		if !w.stop && rapid.IntRange(0, 5).Draw(w.t, "and yet") > 0 {
			e.Reason = ""
		}
	default:
		e.What, tr.settled, tr.sent = plan.Rejected, true, false
	}
	w.feed(e)
}

func (w *world) settle(e plan.Event, step plan.Step, tr *truth) {
	if step.Kind == plan.Child {
		e.What = plan.Sent
		w.feed(e)
		return
	}
	if tr.effect == 0 { // the key is voided
		tr.barred = true
	}
	w.request(e, tr)
}

func (w *world) undo(e plan.Event, step plan.Step, tr *truth, a plan.Action) {
	if rapid.IntRange(0, 7).Draw(w.t, "crash") == 0 && !w.stop {
		e.What = plan.Crashed
		w.feed(e)
		return
	}
	switch {
	case step.Kind != plan.Do && !a.Sent:
		e.What = plan.UndoSent
	case !w.goes("undo"):
		e.What = plan.UndoFailed
	default:
		e.What = plan.UndoDone
		tr.undone = 1 // a repeat has no effect, by its key or by the state's guard
	}
	w.feed(e)
}

// answer plays a participant or a child.
func (w *world) answer() {
	for _, r := range w.s.Runs {
		step, tr := w.step(r.Step), w.truths[key{r.Step, r.Occurrence}]
		if tr == nil || step.Kind != plan.Command && step.Kind != plan.Child ||
			rapid.Bool().Draw(w.t, "somebody else") && !w.stop {
			continue
		}
		e := plan.Event{Step: r.Step, Occurrence: r.Occurrence, Reason: "r"}
		switch {
		case r.Phase == plan.Undoing:
			if tr.effect == 0 {
				tr.barred = true
			}
			e.What, tr.undone = plan.UndoDone, tr.effect
		case tr.sent && (r.Phase == plan.Waiting || r.Phase == plan.Ready && r.Sent || r.Phase == plan.Undo &&
			step.Kind == plan.Command):
			if tr.effect == 0 && (tr.barred || !w.goes("participant")) {
				e.What, e.Sends = plan.Rejected, r.Sends
			} else {
				e.What, e.Output, e.Reason, tr.effect = plan.Succeeded, output(r.Step), "", 1
			}
			tr.settled = true
			if e.What == plan.Rejected && w.s.Status == plan.Running && w.pivotPassed() {
				tr.sent = false
			}
		default:
			continue
		}
		w.feed(e)
		return
	}
}

// finish brings the saga to its end: all replies arrive, and operators retry.
func (w *world) finish() {
	if w.s.Paused {
		w.feed(plan.Event{What: plan.Resume})
	}
	w.lookAfter()
	w.feed(plan.Event{What: plan.Retry})
	for _, a := range w.p.Pending(w.s) {
		w.act(a)
		break
	}
	w.answer()
	for _, s := range w.p.Graph.Steps {
		if s.Signal == "" {
			continue
		}
		for _, r := range w.s.Runs {
			if r.Step == s.Name && r.Phase == plan.Waiting {
				w.feed(plan.Event{What: plan.Signal, Name: s.Signal, Occurrence: r.Occurrence,
					Output: output(s.Name)})
			}
		}
	}
	if next := w.s.Next(); !next.IsZero() {
		w.now = later(w.now, next)
		w.feed(plan.Event{What: plan.Tick})
	}
}
