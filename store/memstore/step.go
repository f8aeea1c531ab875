package memstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore/internal/mark"
)

type stepKey struct{ consumer, saga, name, occurrence string }

type stepRow struct {
	store.Step
	by          store.Identity // of the message that undid or barred it
	at, changed time.Time
}

// A stepFloor is kept for each step of a consumer.
type stepFloor struct{ consumer, name string }

func keyOfStep(s store.Step) stepKey { return stepKey{s.Consumer, s.Saga, s.Name, s.Occurrence} }

func byStep(a, b store.Step) int {
	return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Saga, b.Saga),
		cmp.Compare(a.Name, b.Name), cmp.Compare(a.Occurrence, b.Occurrence))
}

// free tells of a step that a message may take.
func free(s store.StepState) bool {
	return s == store.StepAbsent || s == store.StepParked || s == store.StepDead
}

// lockStep locks a step and says how it stands, for tx.
func (tx *Tx) lockStep(ctx context.Context, s store.Step, until time.Time) (stepRow, error) {
	d, key := tx.s.db, keyOfStep(s)
	if err := d.acquire(ctx, tx, key, until); err != nil {
		return stepRow{}, fmt.Errorf("step: %w", err)
	}
	was, there := tx.steps[key]
	if !there {
		was, there = d.steps[key]
	}
	if !there {
		was = stepRow{Step: store.Step{Consumer: s.Consumer, Saga: s.Saga, Name: s.Name,
			Occurrence: s.Occurrence}, at: d.now(), changed: d.now()}
	}
	if was.Begun.Before(s.Begun) {
		was.Begun = s.Begun
	}
	return was, nil
}

// step takes or undoes s, and says how it stood before.
func (tx *Tx) step(ctx context.Context, s store.Step, until time.Time) (store.Step, error) {
	row, err := tx.lockStep(ctx, s, until)
	if err != nil {
		return store.Step{}, err
	}
	found := store.Step{State: row.State, Identity: row.Identity, Code: row.Code, Result: row.Result,
		OutsideKey: row.OutsideKey, Outcome: row.Outcome}
	if row.State == store.StepAbsent && tx.s.db.forgotten(s) {
		found.State = store.StepTooOld
	}
	switch s.State {
	case store.StepDone, store.StepCalling:
		if free(row.State) {
			found = store.Step{State: found.State}
			row.State, row.Identity, row.OutsideKey, row.changed = s.State, s.Identity, s.OutsideKey,
				tx.s.db.now()
		}
	case store.StepUndone:
		over := row.State == store.StepBarred || row.State == store.StepUndone
		if !over {
			row.by = s.Identity
		}
		if !over && row.State != store.StepCalling {
			row.changed = tx.s.db.now()
		}
		row.State = undone(row.State)
	default:
		return found, fmt.Errorf("step %s: an intake cannot make it %v", s.Name, s.State)
	}
	tx.steps[keyOfStep(s)] = row
	return found, nil
}

// undone is what becomes of a step that is undone.
func undone(was store.StepState) store.StepState {
	switch was {
	case store.StepDone, store.StepUndone:
		return store.StepUndone
	case store.StepCalling:
		return store.StepCalling
	}
	return store.StepBarred
}

// setStep is the guard of an effect, and what it makes of the step.
func (tx *Tx) setStep(ctx context.Context, s store.Step, until time.Time) error {
	row, err := tx.lockStep(ctx, s, until)
	if err != nil {
		return err
	}
	if !slices.Contains(s.From, row.State) || !free(row.State) && row.Identity != s.Identity {
		return fmt.Errorf("step %s of %s is %v: %w", s.Name, s.Saga, row.State, store.ErrLost)
	}
	row.State, row.Identity, row.Code, row.Result, row.changed = s.State, s.Identity, s.Code, s.Result,
		tx.s.db.now()
	row.OutsideKey, row.Outcome = cmp.Or(s.OutsideKey, row.OutsideKey), cmp.Or(s.Outcome, row.Outcome)
	tx.steps[keyOfStep(s)] = row
	return nil
}

// noteStep notes whose message waits to take a step.
func (tx *Tx) noteStep(ctx context.Context, k *store.Park, until time.Time) error {
	if k.Step == nil {
		return nil
	}
	row, err := tx.lockStep(ctx, *k.Step, until)
	if err != nil {
		return err
	}
	if free(row.State) || row.Identity == (store.Identity{}) {
		row.Identity = k.Step.Identity
	}
	if free(row.State) {
		row.State, row.changed = store.StepParked, tx.s.db.now()
		if k.Dead != nil {
			row.State = store.StepDead
		}
	}
	tx.steps[keyOfStep(*k.Step)] = row
	if over := row.State == store.StepBarred || row.State == store.StepUndone; over && k.Dead != nil {
		id := mark.Key{Consumer: k.Consumer, Identity: k.Identity}
		tx.changes = append(tx.changes, func(now time.Time) { tx.s.db.kept.LetGo(id, now) })
	}
	return nil
}

// forgotten tells of a step that nothing is known of whether it may have been forgotten.
func (d *database) forgotten(s store.Step) bool {
	floor, some := d.stepFloors[stepFloor{s.Consumer, s.Name}]
	return some && s.Begun.Before(floor)
}

// forgetSteps removes the steps of sagas that began before, if they came before, too, and raises the floors.
// A step that is under way stays, and so does one whose message is kept, or of which nobody said when its
// saga began.
func (d *database) forgetSteps(before time.Time) (n int64) {
	maps.DeleteFunc(d.steps, func(key stepKey, row stepRow) bool {
		if !d.forgettable(key, row, before) {
			return false
		}
		floor := stepFloor{key.consumer, key.name}
		if d.stepFloors[floor].Before(before) {
			d.stepFloors[floor] = before
		}
		n++
		return true
	})
	return n
}

func (d *database) forgettable(key stepKey, row stepRow, before time.Time) bool {
	_, kept := d.kept.Find(mark.Key{Consumer: row.Consumer, Identity: row.Identity})
	return !kept && d.held[key] == nil && row.State != store.StepCalling && !row.Begun.IsZero() &&
		row.Begun.Before(before) && row.at.Before(before)
}

// Steps is all steps, by consumer, saga, name and occurrence.
func (s *Store) Steps() []store.Step {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	var out []store.Step
	for _, row := range s.db.steps {
		out = append(out, row.Step)
	}
	slices.SortFunc(out, byStep)
	return out
}
