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

// What is to be done about a message is decided by the table of inbox/internal/decide. Here it is told what
// was found, and here its decisions are carried out.

// errUndecided stops the consumer. No test knows how to come here.
var errUndecided = errors.New("inbox: nothing is decided about what was found")

// decided returns the decision of the table about e, by the answer to its intake.
func (x *Executor[TTx]) decided(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	print int64) (d decide.Decision, err error) {
	facts := x.found(e, unit.Found(), print)
	if d = x.table.AfterIntake(facts); d.Do != decide.AskLegacy {
		return d, nil
	}
	knows, err := x.askedLegacy(ctx, e, unit.Tx())
	return x.table.AfterIntake(facts ^ decide.LegacyUnasked | knows), err
}

// found is what the table asks about a message whose intake has answered.
func (x *Executor[TTx]) found(e *partition.Entry, found store.Found, print int64) decide.Facts {
	if e.Step != nil && len(found.Steps) > 0 {
		e.Stood = found.Steps[0]
	}
	f := decide.Mark(judged(found.Marks[0], print)) |
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
	if x.took != nil {
		f ^= decide.LegacyNot ^ decide.LegacyUnasked
	}
	return f | x.stepFacts(e)
}

// judged is what the mark says. That of another message is a conflict.
func judged(v store.Verdict, print int64) store.Outcome {
	switch v.Outcome {
	case store.Done, store.Rejected, store.Barred, store.TooOld:
		return once.Judge(v, print)
	}
	return v.Outcome
}

// stepFacts are what the table asks about the step of e and the call that it is at.
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
	f |= decide.Step(e.Stood.State)
	if e.Takes() != nil {
		f |= decide.DoesStep
	} else {
		f |= decide.UndoesStep
	}
	switch {
	case e.Stood.State != store.StepCalling || !callsFor(e, e.Stood):
		return f | decide.OthersCall
	case x.lostCall(e):
		return f | decide.LostCall
	}
	return f | decide.OwnCall
}

// callsFor tells whether the call that a step is at is e's.
func callsFor(e *partition.Entry, was store.Step) bool {
	if e.Takes() != nil {
		return was.Identity == e.Identity()
	}
	return e.Call != nil && was.OutsideKey == e.Call.Key
}

// lostCall tells of e, which takes a step that is at a call of e's own, whether it is kept without that.
// Nothing here makes it so; a row that was written by another build, or by hand, may be. Of a message that
// undoes a step by a call there is none: its call and its step are stored by one effect, what was read before
// does not take the call away (store.Keep.WasCall), and the answer takes both on.
func (x *Executor[TTx]) lostCall(e *partition.Entry) bool {
	_, there := x.calls[e.Kind()]
	return there && e.Takes() != nil && e.Parked != nil && e.Call == nil && e.Stood.OutsideKey != ""
}

// becomes is what a change makes of the step of e, with an answer; nil: nothing. A step that e undoes stays
// that of the message which took it, with its answer; where nobody knows that message it is e's own.
func becomes(e *partition.Entry, c decide.Change, code int32, result string) *store.Step {
	if !c.Some() || c.IfAnswered && code == 0 && result == "" {
		return nil
	}
	at := *e.Step
	if at.State, at.From = c.To, c.From; c.From == nil {
		at.From = []store.StepState{e.Stood.State}
	}
	if !c.ByMark {
		at.Outcome = e.Outcome
	}
	if e.Takes() != nil {
		at.Code, at.Result = code, result
		return &at
	}
	at.Code, at.Result = e.Stood.Code, e.Stood.Result
	if e.Stood.Identity != (store.Identity{}) {
		at.Identity = e.Stood.Identity
	}
	return &at
}

// waitForCall parks a message whose step has a call outside under way.
func (x *Executor[TTx]) waitForCall(ctx context.Context, e *partition.Entry, end undo,
	d decide.Decision) Result {
	why := fmt.Errorf("step %s of %s: a call outside is under way", e.Step.Name, e.Step.Saga)
	r := x.later(ctx, e, end, settleFirst, why)
	if d.Settle {
		x.settleToUndo(ctx, e.Stood.Identity)
	}
	return r
}

// An answer is what a handler said.
type answer struct {
	says decide.Facts
	no   *skald.RejectedError
	wait *skald.LaterError
	call store.Call
}

// answerOf sorts what a handler said. Again: it may be taken again at once.
func answerOf(err error, again bool) (a answer) {
	var overtaken *skald.RetryNowError
	var outside *Intent
	switch {
	case err == nil:
		a.says = decide.ReturnedNil
	case again && errors.As(err, &overtaken):
		a.says = decide.ReturnedRetryNow
	case errors.As(err, &outside):
		a.says, a.call = decide.ReturnedCall, outside.Call
	case errors.As(err, &a.no):
		a.says = decide.ReturnedReject
	case errors.As(err, &a.wait):
		a.says = decide.ReturnedRetryAfter
	default:
		a.says = decide.ReturnedError
	}
	return a
}
