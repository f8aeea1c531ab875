package engine

import (
	"encoding/json"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// sent is the event of a call that is to be stored before it is made.
func sent(a plan.Action, c store.Call) (plan.Event, error) {
	memo, err := json.Marshal(c)
	e := plan.Event{What: plan.Sent, Step: a.Step, Occurrence: a.Occurrence, Memo: memo}
	if a.Verb == plan.UndoStep {
		e.What = plan.UndoSent
	}
	return e, err
}

// noted is the event of a call whose answer is known.
func noted(a plan.Action, c store.Call) plan.Event {
	c.Age = 0
	e, _ := sent(a, c)
	return e
}

// Unknown is the event of an answer that is not known.
func (is *answer) Unknown() plan.Event {
	e := failed(is.Action, is.Err)
	if is.Later > 0 {
		e.Later = is.Later
	}
	return e
}

// event is that of a known answer to r, for an action of a saga that keeps outputs of up to most bytes.
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
			e = without(e, err)
		}
	}
	return e, refused, nil
}
