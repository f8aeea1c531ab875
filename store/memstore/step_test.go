package memstore

import (
	"testing"
	"time"

	"github.com/skald-go/skald/store"
)

func stepsOf(state store.StepState, began time.Time) *store.Step {
	return &store.Step{Consumer: "c", Saga: "o-1", Name: "pay", State: state, Begun: began,
		Identity: store.Identity{Source: "/s", ID: "1"}}
}

func stepTake(t *testing.T, ss *stepTable, s *store.Step, now time.Time) store.StepState {
	t.Helper()
	v := ss.View()
	found, err := v.Take(s, now)
	if err != nil {
		t.Fatal(err)
	}
	v.Commit()
	return found.State
}

func TestAnUndoBeforeItsStepBarsIt(t *testing.T) {
	ss, now := newStep(), time.Now()
	if got := stepTake(t, ss, stepsOf(store.StepUndone, now), now); got != store.StepAbsent {
		t.Errorf("the undo finds it %v", got)
	}
	if got := stepTake(t, ss, stepsOf(store.StepDone, now), now); got != store.StepBarred {
		t.Errorf("the step, coming late, is %v", got)
	}
}

// TestForgottenStepsRaiseTheFloor checks that a step is not deleted if it is locked or if its message is
// parked, and that a deleted one is too old.
func TestForgottenStepsRaiseTheFloor(t *testing.T) {
	ss, now := newStep(), time.Now()
	stepTake(t, ss, stepsOf(store.StepDone, now), now)
	before := now.Add(time.Minute)
	is := func(so bool) kept { return func(markKey) (bool, bool) { return false, so } }
	locked := func(so bool) func(stepKey) bool { return func(stepKey) bool { return so } }
	if n := ss.Forget(before, is(true), locked(false)) + ss.Forget(before, is(false), locked(true)); n != 0 {
		t.Errorf("%d are forgotten whose message is kept, or that are locked", n)
	}
	if n := ss.Forget(before, is(false), locked(false)); n != 1 {
		t.Errorf("%d are forgotten, want one", n)
	}
	if got := stepTake(t, ss, stepsOf(store.StepDone, now), now); got != store.StepTooOld {
		t.Errorf("it comes again and is %v", got)
	}
}
