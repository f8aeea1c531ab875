package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/skald-go/skald/store"
)

// Settlement is the outcome of an external call that an operator found at the provider.
type Settlement string

// Values of Settlement.
const (
	CallDone    Settlement = "done"
	CallRefused Settlement = "refused"
)

// DropReport is the result of Drop.
type DropReport struct {
	Report
	Unsettled []UnsettledError // in a dry run, the messages that need a Settlement
}

// UnsettledError reports a dead letter that has an external call with an unknown outcome. Drop needs a
// Settlement for it.
type UnsettledError struct {
	ID         string // of the message
	Step, Saga string // empty if the message belongs to no saga
	Key        string // of the call
}

// Where describes the call, and the step that made it.
func (e *UnsettledError) Where() string {
	if e.Step == "" {
		return "it is at the call " + e.Key
	}
	return fmt.Sprintf("step %s of %s is at the call %s", e.Step, e.Saga, e.Key)
}

func (e *UnsettledError) Error() string {
	return fmt.Sprintf("%s, and Skald does not ask for its outcome after the drop: look it up at the provider, and give it as %s or %s",
		e.Where(), CallDone, CallRefused)
}

// DropStore is the part of a store that Drop needs.
type DropStore interface{ MessageStore }

// Drop marks the selected dead letters as finished and deletes them. No consumer handles these messages or
// repeats of them again. Later messages of their keys are no longer blocked.
//
// The argument outcome is the outcome of their external calls. It is required if the provider's answer to a
// call is not stored, because Skald does not ask the provider after the drop. Drop then returns an
// *UnsettledError if outcome is empty. The reason in the audit includes the outcome. The report is also
// valid if the error is a *PartialError.
func Drop(ctx context.Context, db DropStore, s Selection, outcome Settlement,
	o Order) (r DropReport, err error) {
	switch outcome {
	case "", CallDone, CallRefused:
	default:
		return r, &UsageError{Reason: fmt.Sprintf("the outcome of a call is %s or %s, not %q", CallDone,
			CallRefused, outcome)}
	}
	s.Dead = true
	r.Report, err = changeAll(ctx, db, "drop", &s, &o,
		func(ctx context.Context, p *store.Parked) (e store.Effect, err error) {
			e.Finish = &store.Finish{Consumer: p.Consumer, Identity: p.Identity, DeadAt: p.Dead.At}
			e.Audit = auditOf(&o, "drop", p.Consumer, p.Identity)
			if e.Step, err = settle(ctx, db, p, outcome); err != nil {
				return e, err
			}
			if p.Call != nil && answered(p.Call) == "" {
				e.Audit.Reason = fmt.Sprintf("%s (the call %s: %s)", o.Reason, p.Call.Key, outcome)
			}
			e.Mark, err = givenUpMark(ctx, db, p, "dropped: "+e.Audit.Reason)
			return e, err
		})
	if err == nil && o.DryRun {
		r.Unsettled, err = unsettled(ctx, db, s, outcome)
	}
	return r, err
}

// unsettled returns the selected messages that need a Settlement.
func unsettled(ctx context.Context, db DropStore, s Selection,
	call Settlement) (out []UnsettledError, err error) {
	for p, err := range List(ctx, db, s, true) {
		if err != nil {
			return nil, err
		}
		_, err := settle(ctx, db, &p, call)
		var wants *UnsettledError
		switch {
		case errors.As(err, &wants):
			out = append(out, *wants)
		case err != nil:
			return nil, fmt.Errorf("drop %s: %w", p.ID, err)
		}
	}
	return out, nil
}

// settle returns the step that p's call does or undoes, with the state after the call. It returns nil if
// there is no such step. Without the new state, a message that undoes the step would wait forever for the
// outcome of the call. A stored answer of the provider takes precedence over the argument outcome.
func settle(ctx context.Context, db DropStore, p *store.Parked, outcome Settlement) (*store.Step, error) {
	if p.Call == nil {
		return nil, nil
	}
	list, err := store.ListSteps(ctx, db, store.StepQuery{Consumer: p.Consumer, OutsideKey: p.Call.Key,
		State: store.StepCalling, Limit: 1})
	if err != nil {
		return nil, err
	}
	found := cmp.Or(answered(p.Call), outcome)
	if len(list) == 0 {
		if found == "" {
			return nil, &UnsettledError{ID: p.ID, Key: p.Call.Key}
		}
		return nil, nil
	}
	s := list[0].Step
	if found == "" {
		return nil, &UnsettledError{p.ID, s.Name, s.Saga, p.Call.Key}
	}
	// A step is stored with the identity of the message that did the step. A message that undoes the step
	// has another identity.
	undoes := s.Identity != p.Identity
	return &store.Step{Consumer: s.Consumer, Saga: s.Saga, Name: s.Name, Occurrence: s.Occurrence,
		Identity: s.Identity, Code: s.Code, Result: s.Result,
		State: stateAfterCall(undoes, found == CallDone), From: []store.StepState{store.StepCalling}}, nil
}

// answered returns the stored answer of the provider to a call, or "" if there is no answer.
func answered(c *store.Call) Settlement {
	var outcome struct{ Refused bool }
	switch {
	case c.Outcome == "" || json.Unmarshal([]byte(c.Outcome), &outcome) != nil:
		return ""
	case outcome.Refused:
		return CallRefused
	}
	return CallDone
}

// stateAfterCall returns the state of a step after a call that does or undoes the step. The argument
// effective reports whether the call took effect.
func stateAfterCall(undoes, effective bool) store.StepState {
	switch {
	case undoes && effective:
		return store.StepUndone
	case undoes || effective:
		return store.StepDone
	}
	return store.StepRejected
}
