package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

func byStep(a, b store.Step) int {
	return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Saga, b.Saga), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Occurrence, b.Occurrence))
}

func stepArgs(s *store.Step, more ...any) []any {
	return append([]any{name(s.Consumer), name(s.Saga), name(s.Name), name(s.Occurrence)}, more...)
}

// free tells of a step that a message may take.
func free(s store.StepState) bool {
	return s == store.StepAbsent || s == store.StepParked || s == store.StepDead
}

// takeStep are the calls that take or undo s, and say into found how it stood before.
func (c *core) takeStep(s, found *store.Step) ([]call, error) {
	var take call
	switch s.State {
	case store.StepDone, store.StepCalling:
		take = c.call("TakeStep", stepArgs(s, int16(s.State), name(s.Source), name(s.ID), moment(s.Begun), some(legible(s.OutsideKey)))...)
	case store.StepUndone:
		take = c.call("UndoStep", stepArgs(s, name(s.Source), name(s.ID), moment(s.Begun))...)
	default:
		return nil, fmt.Errorf("step %.40q: an intake cannot make it %v", s.Name, s.State)
	}
	take.scan = func(row scanner) error {
		var was store.Step
		var result, outcome []byte
		if err := row.Scan(&was.State, &was.Source, &was.ID, &was.Code, &result, &was.OutsideKey, &outcome); err != nil {
			return err
		}
		was.Result, was.Outcome = string(result), string(outcome)
		if s.State != store.StepUndone && free(was.State) || was.State == store.StepAbsent {
			was = store.Step{State: was.State}
		}
		*found = was
		return nil
	}
	calls := []call{take}
	if c.now().Sub(s.Begun) < recent { // above every floor: see leastSteps
		return calls, nil
	}
	look := c.call("ForgottenStep", name(s.Consumer), name(s.Name), moment(s.Begun))
	look.scan = func(row scanner) error {
		var forgotten bool
		err := row.Scan(&forgotten)
		if forgotten && found.State == store.StepAbsent {
			found.State = store.StepTooOld
		}
		return err
	}
	return append(calls, look), nil
}

// setStep is the guard of an effect, and what it makes of the step.
func (c *core) setStep(s *store.Step) []call {
	if s == nil {
		return nil
	}
	from := int32(0)
	for _, state := range s.From {
		from |= 1 << state
	}
	return []call{c.call("SetStep", stepArgs(s, int16(s.State), name(s.Source), name(s.ID), moment(s.Begun), s.Code, blobOrNull(s.Result),
		some(legible(s.OutsideKey)), blobOrNull(s.Outcome), from)...)}
}

func blobOrNull(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

// noteStep notes whose message waits to take a step.
func (c *core) noteStep(k *store.Keep) []call {
	if k == nil || k.Step == nil {
		return nil
	}
	s, state := k.Step, store.StepParked
	if k.Dead != nil {
		state = store.StepDead
	}
	note := c.call("NoteStep", stepArgs(s, int16(state), name(s.Source), name(s.ID), moment(s.Begun))...)
	if k.Dead == nil || !k.Dead.Holds {
		return []call{note}
	}
	id := identity(k.Consumer, k.Identity)
	return []call{note, c.call("LetGo", append(slices.Clone(id), name(s.Saga), name(s.Name), name(s.Occurrence))...), c.call("SettleKept", id...)}
}

// leastSteps: steps of sagas of the last hour are taken without a look at the floor; another's clock may be so far ahead.
const leastSteps = recent + skew

// forgetSteps deletes steps and raises the floors, in batches.
func (c *core) forgetSteps(ctx context.Context, k *keeping) error {
	for until := time.Now().Add(pruneFor); ; {
		var n int64
		forget := c.call("ForgetSteps", k.now.Add(-max(k.Steps, leastSteps)).Truncate(time.Millisecond)).into(&n)
		if err := c.short(ctx, "forget steps", forget); err != nil {
			return err
		}
		if n > 0 {
			if err := c.short(ctx, "forget steps", c.call("Emptied", "skald_step")); err != nil {
				return err
			}
		}
		if k.done.Steps += n; n < prunePage {
			return nil
		}
		if time.Now().After(until) {
			k.done.More = true
			return nil
		}
	}
}
