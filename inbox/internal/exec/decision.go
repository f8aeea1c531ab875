package exec

import (
	"context"
	"errors"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
)

// This file collects the facts about a message. The table of package decide uses them to select the next
// action.

// errUndecided stops the consumer. A test of package decide proves that the table always decides.
var errUndecided = errors.New("inbox: no rule applies to the message (a bug of Skald)")

// decideAfterIntake returns the table's decision about e after its intake. If the table needs it,
// decideAfterIntake first calls the LegacySteps function.
func (x *Executor[TTx]) decideAfterIntake(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	print int64) (d decide.Decision, err error) {
	facts := x.facts(e, unit.Found(), print)
	if d = x.table.AfterIntake(facts); d.Do != decide.AskLegacy {
		return d, nil
	}
	knows, err := x.askLegacySteps(ctx, e, unit.Tx())
	return x.table.AfterIntake(facts ^ decide.LegacyUnasked | knows), err
}

// facts returns the facts about e after its intake. It also stores the state of the step in e.
func (x *Executor[TTx]) facts(e *partition.Entry, found store.Found, print int64) decide.Facts {
	if e.Step != nil && len(found.Steps) > 0 {
		e.PriorStep = found.Steps[0]
	}
	f := decide.Mark(outcomeOf(found.Marks[0], print)) |
		decide.Delivered | decide.Unsuspected | decide.Handler | decide.LegacyNot
	if e.Parked != nil {
		f ^= decide.Delivered ^ decide.Claimed
	}
	if e.Admitted() {
		f ^= decide.Claimed ^ decide.Admitted
	}
	if e.Suspect {
		f ^= decide.Unsuspected ^ decide.Suspect
	}
	if x.handlers[e.Kind()] == nil {
		f ^= decide.Handler ^ decide.NoHandler
	}
	if x.legacySteps != nil {
		f ^= decide.LegacyNot ^ decide.LegacyUnasked
	}
	return f | x.stepFacts(e)
}

// outcomeOf returns the outcome of a mark. If the mark has another fingerprint, the outcome is a conflict.
func outcomeOf(v store.Verdict, print int64) store.Outcome {
	switch v.Outcome {
	case store.Done, store.Rejected, store.Barred, store.TooOld:
		return once.Judge(v, print)
	}
	return v.Outcome
}

// stepFacts returns the facts about the step of e and the outside call of the step.
func (x *Executor[TTx]) stepFacts(e *partition.Entry) (f decide.Facts) {
	switch {
	case e.Outcome == "":
		f = decide.Unasked
	case call.Refused(e.Outcome):
		f = decide.Refused
	default:
		f = decide.Accepted
	}
	if e.Step == nil {
		return f | decide.NoStep | decide.StepAbsent | decide.OthersCall
	}
	f |= decide.Step(e.PriorStep.State)
	if e.Takes() != nil {
		f |= decide.DoesStep
	} else {
		f |= decide.UndoesStep
	}
	switch {
	case e.PriorStep.State != store.StepCalling || !hasCallOf(e, e.PriorStep):
		return f | decide.OthersCall
	case x.lostCall(e):
		return f | decide.LostCall
	}
	return f | decide.OwnCall
}

// hasCallOf reports whether the current call of the step was intended by e.
func hasCallOf(e *partition.Entry, was store.Step) bool {
	if e.Takes() != nil {
		return was.Identity == e.Identity()
	}
	return e.Call != nil && was.OutsideKey == e.Call.Key
}

// lostCall reports whether e does a step in state calling, although its parked row has no call. Skald never
// writes such a row; another build or an operator may.
//
// A message that undoes a step cannot lose its call. One effect stores its call and its step,
// store.Park.WasCall guards the row, and the reply changes both.
func (x *Executor[TTx]) lostCall(e *partition.Entry) bool {
	_, there := x.calls[e.Kind()]
	return there && e.Takes() != nil && e.Parked != nil && e.Call == nil && e.PriorStep.OutsideKey != ""
}

// stepChange returns the step of e after the change c, with a reply. It returns nil if c changes nothing. If
// e undoes the step, the step still has the identity and the reply of the message that did it. If that
// message is unknown, the step has the identity of e.
func stepChange(e *partition.Entry, c decide.Change, code int32, result string) *store.Step {
	if !c.Some() || c.IfAnswered && code == 0 && result == "" {
		return nil
	}
	at := *e.Step
	if at.State, at.From = c.To, c.From; c.From == nil {
		at.From = []store.StepState{e.PriorStep.State}
	}
	if !c.ByMark {
		at.Outcome = e.Outcome
	}
	if e.Takes() != nil {
		at.Code, at.Result = code, result
		return &at
	}
	at.Code, at.Result = e.PriorStep.Code, e.PriorStep.Result
	if e.PriorStep.Identity != (store.Identity{}) {
		at.Identity = e.PriorStep.Identity
	}
	return &at
}

// waitForCall parks a message while the outside call of its step is in progress.
func (x *Executor[TTx]) waitForCall(ctx context.Context, e *partition.Entry, end rollbackFunc,
	d decide.Decision) Result {
	why := fmt.Errorf("step %s of %s: an outside call is in progress", e.Step.Name, e.Step.Saga)
	r := x.parkFor(ctx, e, end, settleWait, why)
	if d.Settle {
		x.settleForUndo(ctx, e.PriorStep.Identity)
	}
	return r
}

// answer is the result of a handler.
type answer struct {
	fact       decide.Facts
	rejected   *skald.RejectedError
	retryAfter *skald.LaterError
	call       store.Call
}

// answerOf classifies the error of a handler. If mayRetry is true, an immediate retry is allowed.
func answerOf(err error, mayRetry bool) (a answer) {
	var overtaken *skald.RetryNowError
	var outside *Intent
	switch {
	case err == nil:
		a.fact = decide.ReturnedNil
	case mayRetry && errors.As(err, &overtaken):
		a.fact = decide.ReturnedRetryNow
	case errors.As(err, &outside):
		a.fact, a.call = decide.ReturnedCall, outside.Call
	case errors.As(err, &a.rejected):
		a.fact = decide.ReturnedReject
	case errors.As(err, &a.retryAfter):
		a.fact = decide.ReturnedRetryAfter
	default:
		a.fact = decide.ReturnedError
	}
	return a
}
