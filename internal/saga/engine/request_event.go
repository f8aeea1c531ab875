package engine

import (
	"encoding/json"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// callEvent returns the event that stores a call, before the engine makes the call.
func callEvent(a plan.Action, c store.Call) (plan.Event, error) {
	memo, err := json.Marshal(c)
	e := plan.Event{What: plan.Sent, Step: a.Step, Occurrence: a.Occurrence, Memo: memo}
	if a.Verb == plan.UndoStep {
		e.What = plan.UndoSent
	}
	return e, err
}

// answerEvent returns the event that stores the known answer of a call.
func answerEvent(a plan.Action, c store.Call) plan.Event {
	c.Age = 0
	e, _ := callEvent(a, c)
	return e
}

// Unknown returns the event for a request without a known answer.
func (is *answer) Unknown() plan.Event {
	e := failureEvent(is.Action, is.Err)
	if is.Later > 0 {
		e.Later = is.Later
	}
	return e
}

// event returns the event for a known answer to r. The argument most limits the output in bytes.
func event[TTx any](r Request[TTx], a plan.Action, c store.Call,
	most int) (e plan.Event, refused bool, err error) {
	output, refused, why, err := r.Read(c.Outcome)
	if err != nil {
		return e, refused, err
	}
	e = plan.Event{What: plan.Succeeded, Step: a.Step, Occurrence: a.Occurrence, Output: output}
	switch {
	case a.Verb == plan.UndoStep && refused:
		e.What, e.Permanent, e.Reason = plan.UndoFailed, true, why
	case a.Verb == plan.UndoStep:
		e.What = plan.UndoDone
	case refused:
		e.What, e.Reason = plan.Rejected, why
	default:
		if err := CheckSize("the output of the step "+a.Step, output, most); err != nil {
			e = withoutOutput(e, err)
		}
	}
	return e, refused, nil
}
