package inbox

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// settleFirst is how long a message waits whose step has a call outside under way.
const settleFirst = time.Second

// stepped goes on with a message that nobody has finished: as its step stands, it is handled, or there is nothing left to do.
func (in *Inbox[TTx]) stepped(ctx context.Context, e *entry, unit store.Unit[TTx], intake store.Intake) result {
	if e.step == nil {
		return in.handle(ctx, e, unit, intake)
	}
	was := unit.Found().Steps[0]
	e.stood = was
	switch {
	case was.State == store.StepTooOld && !e.admitted():
		return in.known(ctx, e, unit, store.Verdict{Outcome: store.TooOld}, intake.Marks[0].Fingerprint)
	case was.State == store.StepCalling && e.outcome != "" && e.calls(was) && e.takes() != nil:
		return in.handle(ctx, e, unit, intake)
	case was.State == store.StepCalling && e.outcome != "" && e.calls(was):
		return in.undo(ctx, e, unit, intake, was)
	case was.State == store.StepCalling && in.lostCall(e, was):
		return in.intendAgain(ctx, e, unit, intake, was.OutsideKey)
	case was.State == store.StepCalling:
		r := in.later(ctx, e, unit.Rollback, settleFirst, fmt.Errorf("step %s of %s: a call outside is under way", e.step.Name, e.step.Saga))
		if e.takes() == nil {
			in.settleToUndo(ctx, was.Identity)
		}
		return r
	case e.takes() != nil:
		return in.forward(ctx, e, unit, intake, was)
	}
	return in.backward(ctx, e, unit, intake, was)
}

// calls tells whether the call that a step is at is e's.
func (e *entry) calls(was store.Step) bool {
	if e.takes() != nil {
		return was.Identity == e.identity()
	}
	return e.call != nil && was.OutsideKey == e.call.Key
}

// forward takes the step, unless it is taken or barred.
func (in *Inbox[TTx]) forward(ctx context.Context, e *entry, unit store.Unit[TTx], intake store.Intake, was store.Step) result {
	switch was.State {
	case store.StepBarred, store.StepUndone:
		return in.without(ctx, e, unit, intake, was, store.Barred, barred)
	case store.StepDone:
		return in.without(ctx, e, unit, intake, was, store.Done, duplicate)
	case store.StepRejected:
		return in.without(ctx, e, unit, intake, was, store.Rejected, duplicate)
	}
	switch took, err := in.tookBeside(ctx, e, unit.Tx()); {
	case err != nil:
		return in.failure(ctx, e, unit.Rollback, err)
	case took:
		return in.without(ctx, e, unit, intake, was, store.Done, duplicate)
	}
	return in.handle(ctx, e, unit, intake)
}

// backward undoes the step if it took effect. What an operator admitted although it is too old to be known is undone.
func (in *Inbox[TTx]) backward(ctx context.Context, e *entry, unit store.Unit[TTx], intake store.Intake, was store.Step) result {
	if was.State != store.StepDone && was.State != store.StepTooOld {
		switch took, err := in.tookBeside(ctx, e, unit.Tx()); {
		case err != nil:
			return in.failure(ctx, e, unit.Rollback, err)
		case !took:
			return in.without(ctx, e, unit, intake, was, store.Done, handled)
		}
	}
	return in.undo(ctx, e, unit, intake, was)
}

// undo undoes the step.
func (in *Inbox[TTx]) undo(ctx context.Context, e *entry, unit store.Unit[TTx], intake store.Intake, was store.Step) result {
	took := Took{Step: Step{Saga: e.step.Saga, Name: e.step.Name, Occurrence: e.step.Occurrence, Begun: e.step.Begun},
		ID: was.Identity, Code: was.Code, Result: []byte(was.Result)}
	return in.handle(context.WithValue(ctx, tookKey{}, took), e, unit, intake)
}

// without finishes a message without its handler: only its mark stands, and what is to be said. A repeat of a step has the answer
// of the first, and says nothing. A dead letter whose step is barred by it is let go: it is taken once more, is finished as barred, and
// the messages of its key go on.
func (in *Inbox[TTx]) without(ctx context.Context, e *entry, unit store.Unit[TTx], intake store.Intake, was store.Step, as store.Outcome, what ending) result {
	r := Result{}
	if _, err := in.askedBeside(ctx, e, unit.Tx()); err != nil { // what it knows changes nothing here: it is to note it
		return in.failure(ctx, e, unit.Rollback, err)
	}
	if what != duplicate {
		var err error
		if r.Say, err = in.saying(ctx, e, was.State); err != nil {
			return in.failure(ctx, e, unit.Rollback, fmt.Errorf("say that step %s is %v: %w", e.step.Name, was.State, err))
		}
	}
	leaves, err := in.leaves(ctx, e, r, intake)
	if err != nil {
		return in.failure(ctx, e, unit.Rollback, fmt.Errorf("answer of %s: %w", e.ID, err))
	}
	if was.State == store.StepDead && e.takes() == nil {
		leaves.Release = &store.Release{Consumer: in.group, Identity: was.Identity, Dead: true}
	}
	if as != store.Done || what == duplicate {
		mark := intake.Marks[0]
		if leaves.Answer != nil {
			mark = *leaves.Answer
		}
		if mark.As = as; what == duplicate {
			mark.Code, mark.Result = was.Code, was.Result
		}
		if as == store.Rejected {
			mark.Reason = "its step was rejected before: message " + was.ID
		}
		leaves.Answer = &mark
	}
	return in.commit(ctx, e, unit, leaves, what)
}

// saying is what is to be said where a message has nothing to do.
func (in *Inbox[TTx]) saying(ctx context.Context, e *entry, was store.StepState) (say []skald.Draft, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return in.steps[kind{e.Topic, e.Type}].say(ctx, e.Message, was)
}

// refused is what a rejection, with an answer or nil, leaves of the step that its message takes: it stands only if nobody barred
// the step meanwhile.
func refused(s, answer *store.Step) *store.Step {
	if answer != nil {
		s = answer
	}
	if s == nil {
		return nil
	}
	no := *s
	no.State, no.From = store.StepRejected, []store.StepState{store.StepAbsent, store.StepParked, store.StepDead, store.StepCalling}
	return &no
}

// answered is what a handler's answer leaves of the step that its message took; nil: nothing.
func answered(s *store.Step, code int32, result string) *store.Step {
	if s == nil || code == 0 && result == "" {
		return nil
	}
	yes := *s
	yes.From, yes.Code, yes.Result = []store.StepState{s.State}, code, result
	return &yes
}
