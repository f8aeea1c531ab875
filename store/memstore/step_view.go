package memstore

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

// stepView has the steps as one transaction reads them.
type stepView struct {
	tableView[stepKey, stepRow]
	steps *stepTable
}

// isFree reports whether a message may take a step in state s.
func isFree(s store.StepState) bool {
	return s == store.StepAbsent || s == store.StepParked || s == store.StepDead
}

// isOver reports whether the step in state s is barred or undone, so that no message may take the step any
// more.
func isOver(s store.StepState) bool { return s == store.StepBarred || s == store.StepUndone }

// rowOf returns the stored row of a step, or a new one.
func (v *stepView) rowOf(s *store.Step, now time.Time) stepRow {
	r, there := v.Get(stepKeyOf(s))
	if !there {
		r = stepRow{Step: store.Step{Consumer: s.Consumer, Saga: s.Saga, Name: s.Name,
			Occurrence: s.Occurrence}, at: now, changed: now}
	}
	if r.Begun.Before(s.Begun) {
		r.Begun = s.Begun
	}
	return r
}

// Take takes or undoes the step s and returns the previous state.
func (v *stepView) Take(s *store.Step, now time.Time) (store.Step, error) {
	r := v.rowOf(s, now)
	found := store.Step{State: r.State, Identity: r.Identity, Code: r.Code, Result: r.Result,
		OutsideKey: r.OutsideKey, Outcome: r.Outcome}
	if r.State == store.StepAbsent && v.steps.forgotten(s) {
		found.State = store.StepTooOld
	}
	switch s.State {
	case store.StepDone, store.StepCalling:
		if isFree(r.State) {
			found = store.Step{State: found.State}
			r.State, r.Identity, r.OutsideKey, r.changed = s.State, s.Identity, s.OutsideKey, now
		}
	case store.StepUndone:
		if !isOver(r.State) {
			r.by = s.Identity
		}
		if !isOver(r.State) && r.State != store.StepCalling {
			r.changed = now
		}
		r.State = undone(r.State)
	default:
		return found, fmt.Errorf("step %s: an intake cannot make it %v", s.Name, s.State)
	}
	v.Put(stepKeyOf(s), r)
	return found, nil
}

// undone returns the state of a step after an undo.
func undone(was store.StepState) store.StepState {
	switch was {
	case store.StepDone, store.StepUndone:
		return store.StepUndone
	case store.StepCalling:
		return store.StepCalling
	}
	return store.StepBarred
}

// forgotten reports whether Forget may have deleted a step without a row.
func (ss *stepTable) forgotten(s *store.Step) bool {
	at, some := ss.floors[floor{s.Consumer, s.Name}]
	return some && s.Begun.Before(at)
}

// Set checks the state of s and stores the new one.
func (v *stepView) Set(s *store.Step, now time.Time) error {
	r := v.rowOf(s, now)
	if !slices.Contains(s.From, r.State) || !isFree(r.State) && r.Identity != s.Identity {
		return fmt.Errorf("step %s of %s is %v: %w", s.Name, s.Saga, r.State, store.ErrLost)
	}
	r.State, r.Identity, r.Code, r.Result, r.changed = s.State, s.Identity, s.Code, s.Result, now
	r.OutsideKey, r.Outcome = cmp.Or(s.OutsideKey, r.OutsideKey), cmp.Or(s.Outcome, r.Outcome)
	v.Put(stepKeyOf(s), r)
	return nil
}

// Note records the step of a message that is parked or dead. It returns true if the step is barred or undone,
// because the message can then have no effect.
func (v *stepView) Note(s *store.Step, dead bool, now time.Time) bool {
	r := v.rowOf(s, now)
	if isFree(r.State) || r.Identity == (store.Identity{}) {
		r.Identity = s.Identity
	}
	if isFree(r.State) {
		r.State, r.changed = store.StepParked, now
		if dead {
			r.State = store.StepDead
		}
	}
	v.Put(stepKeyOf(s), r)
	return isOver(r.State)
}
