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

// forgottenStep is a fragment of the statements that take a step: see TakeStep. No floor is above a saga of
// the last hour: see leastSteps.
const forgottenStep = `s.was = 0 AND CASE WHEN s.begun > clock_timestamp() - interval '1 hour' THEN false
		ELSE EXISTS (SELECT FROM /*schema*/skald_step AS o
				WHERE o.consumer = $1::text AND o.saga = $2::text AND o.step = $3::text AND o.occurrence = $4::text)
			OR EXISTS (SELECT FROM /*schema*/skald_step_floor AS f
				WHERE f.consumer = $1::text AND f.step = $3::text AND f.at > coalesce(s.begun, '-infinity')) END`

// free tells of a step that a message may take.
func free(s store.StepState) bool {
	return s == store.StepAbsent || s == store.StepParked || s == store.StepDead
}

// takeStep is the call that takes or undoes s, and says into found how it stood before.
func (c *core) takeStep(s, found *store.Step) (take call, err error) {
	switch s.State {
	case store.StepDone, store.StepCalling:
		take = c.call("TakeStep", stepArgs(s, int16(s.State), name(s.Source), name(s.ID), moment(s.Begun), some(legible(s.OutsideKey)))...)
	case store.StepUndone:
		take = c.call("UndoStep", stepArgs(s, name(s.Source), name(s.ID), moment(s.Begun))...)
	default:
		return take, fmt.Errorf("step %.40q: an intake cannot make it %v", s.Name, s.State)
	}
	take.scan = func(row scanner) error {
		var was store.Step
		var result, outcome blob
		var tooOld bool
		if err := row.Scan(&was.State, &was.Source, &was.ID, &was.Code, &result, &was.OutsideKey, &outcome, &tooOld); err != nil {
			return err
		}
		was.Result, was.Outcome = string(result), string(outcome)
		if was.Source == name(s.Source) && was.ID == name(s.ID) { // a long id is stored as its hash
			was.Identity = s.Identity
		} else {
			handles(&was.Source, &was.ID)
		}
		if s.State != store.StepUndone && free(was.State) || was.State == store.StepAbsent {
			was = store.Step{State: was.State}
		}
		if tooOld && was.State == store.StepAbsent {
			was.State = store.StepTooOld
		}
		*found = was
		return nil
	}
	return take, nil
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
func (c *core) noteStep(k *store.Park) []call {
	if k == nil || k.Step == nil {
		return nil
	}
	s, state := k.Step, store.StepParked
	if k.Dead != nil {
		state = store.StepDead
	}
	note := c.call("NoteStep", stepArgs(s, int16(state), name(s.Source), name(s.ID), moment(s.Begun))...)
	if k.Dead == nil || !k.Dead.BlocksKey {
		return []call{note}
	}
	id := identity(k.Consumer, k.Identity)
	return []call{note, c.call("LetGo", append(slices.Clone(id), name(s.Saga), name(s.Name), name(s.Occurrence))...), c.call("SettleParked", id...)}
}

// forgetSteps deletes steps and raises the floors.
func (c *core) forgetSteps(ctx context.Context, k *keeping) error {
	before := k.now.Add(-max(k.Steps, leastSteps)).Truncate(time.Millisecond)
	return c.batches(ctx, k, "skald_step", func() (n int64, err error) {
		err = c.short(ctx, "forget steps", c.call("ForgetSteps", before).into(&n))
		k.done.Steps += n
		return n, err
	})
}
