package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/skald-go/skald/store"
)

// A Settlement is what a person found at the provider of an outside call.
type Settlement string

// Settlements.
const (
	CallDone    Settlement = "done"
	CallRefused Settlement = "refused"
)

// A DropReport tells of a dry run also which of its messages need a Settlement.
type DropReport struct {
	Report
	Unsettled []UnsettledError
}

// An UnsettledError says that a dead letter is at an outside call without an answer, and that a Settlement
// must tell what became of it.
type UnsettledError struct {
	ID         string // of the message
	Step, Saga string // "": it belongs to no saga
	Key        string // of the call
}

// Where says who is at the call.
func (e *UnsettledError) Where() string {
	if e.Step == "" {
		return "it is at the call " + e.Key
	}
	return fmt.Sprintf("step %s of %s is at the call %s", e.Step, e.Saga, e.Key)
}

func (e *UnsettledError) Error() string {
	return fmt.Sprintf("%s, and nobody asks what became of it once the message is dropped: look it up at the provider, then say whether it is %s or %s",
		e.Where(), CallDone, CallRefused)
}

// A Dropper is what Drop asks of a store.
type Dropper interface{ Keeper }

// Drop marks the selected dead letters as finished and forgets them: what they had left to do never happens,
// and repeats of them are dropped. Messages of their keys go on. call says what became of the outside calls
// that they are at; it is required, with an *UnsettledError, of each that has no stored answer, since nobody
// asks the provider again, and is noted with the reason. With a *PartlyError the report is valid, too.
func Drop(ctx context.Context, db Dropper, s Selection, call Settlement,
	o Order) (r DropReport, err error) {
	switch call {
	case "", CallDone, CallRefused:
	default:
		return r, &UsageError{What: fmt.Sprintf("a call is %s or %s, not %q", CallDone,
			CallRefused, call)}
	}
	s.Dead = true
	r.Report, err = changeAll(ctx, db, "drop", &s, &o,
		func(ctx context.Context, p *store.Parked) (e store.Effect, err error) {
			e.Finish = &store.Finish{Consumer: p.Consumer, Identity: p.Identity, DeadAt: p.Dead.At}
			e.Audit = auditOf(&o, "drop", p.Consumer, p.Identity)
			if e.Step, err = settle(ctx, db, p, call); err != nil {
				return e, err
			}
			if p.Call != nil && answered(p.Call) == "" {
				e.Audit.Reason = fmt.Sprintf("%s (the call %s: %s)", o.Reason, p.Call.Key, call)
			}
			e.Mark, err = givenUp(ctx, db, p, "dropped: "+e.Audit.Reason)
			return e, err
		})
	if err == nil && o.DryRun {
		r.Unsettled, err = unsettled(ctx, db, s, call)
	}
	return r, err
}

// unsettled are the selected messages that need a Settlement.
func unsettled(ctx context.Context, db Dropper, s Selection,
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

// settle is what becomes of the step that p's call takes or undoes; nil: it has none. Otherwise a message
// that is to undo the step would wait for a call that nobody settles. What the provider has said counts.
func settle(ctx context.Context, db Dropper, p *store.Parked, call Settlement) (*store.Step, error) {
	if p.Call == nil {
		return nil, nil
	}
	list, err := store.ListSteps(ctx, db, store.StepQuery{Consumer: p.Consumer, OutsideKey: p.Call.Key,
		State: store.StepCalling, Limit: 1})
	if err != nil {
		return nil, err
	}
	found := cmp.Or(answered(p.Call), call)
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
	// a message that undoes a step leaves it the identity of the message that took it
	undoes := s.Identity != p.Identity
	return &store.Step{Consumer: s.Consumer, Saga: s.Saga, Name: s.Name, Occurrence: s.Occurrence,
		Identity: s.Identity, Code: s.Code, Result: s.Result,
		State: became(undoes, found == CallDone), From: []store.StepState{store.StepCalling}}, nil
}

// answered is what the provider has said of a call; "": nothing yet.
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

// became is how a step stands after its call.
func became(undoes, done bool) store.StepState {
	switch {
	case undoes && done:
		return store.StepUndone
	case undoes || done:
		return store.StepDone
	}
	return store.StepRejected
}
