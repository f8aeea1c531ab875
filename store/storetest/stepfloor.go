package storetest

import (
	"time"

	"github.com/skald-go/skald/store"
)

// begunAgo returns s for a saga that began d ago.
func begunAgo(s store.Step, d time.Duration) store.Step {
	s.Begun = time.Now().Add(-d)
	return s
}

// wantDeletedSteps runs Maintain until steps are deleted. It fails the test unless this number of steps was
// deleted.
func (s *suite[TTx]) wantDeletedSteps(number int64) {
	s.Helper()
	n := int64(0)
	s.waitUntil("steps are deleted", func() bool {
		n += s.maintain().Steps
		return n >= number
	})
	if n += s.maintain().Steps; n != number {
		s.Fatalf("%d steps were deleted, want %d", n, number)
	}
}

// stepFloor checks that a missing step is too old if it may have been deleted, both for a take and for an
// undo.
func (s *suite[TTx]) stepFloor() {
	old, young, untold, ahead := begunAgo(taking("old"), 100*day), begunAgo(taking("young"), -20*day),
		taking("untold"), begunAgo(taking("ahead"), -400*day)
	for _, step := range []store.Step{old, young, untold, ahead} {
		s.step(step, store.StepAbsent)
	}
	never := begunAgo(undoing("never"), 200*day)
	s.wantStep(never, store.StepAbsent) // nothing is deleted yet
	s.wantDeletedSteps(0)               // they were stored just now, although their sagas are old
	s.db.Age(s, 95*day)
	s.wantDeletedSteps(1)
	undo := undoing("old")
	undo.Begun = old.Begun
	s.wantStep(undo, store.StepTooOld)
	s.wantStep(old, store.StepTooOld)
	s.wantStep(never, store.StepTooOld)
	s.wantStep(undoing("of a time that nobody said"), store.StepTooOld)
	s.wantStep(begunAgo(undoing("new"), -10*day), store.StepAbsent)
	// Existing steps are not too old.
	for _, step := range []store.Step{young, untold, ahead} {
		s.wantStep(step, store.StepDone)
	}
	// A message that ignores it leaves a correct state.
	s.step(undo, store.StepTooOld)
	s.wantStep(undo, store.StepBarred)
}

// stepFloorOfItsOwn checks that each step and each consumer has a separate floor.
func (s *suite[TTx]) stepFloorOfItsOwn() {
	s.step(begunAgo(taking("a"), 100*day), store.StepAbsent)
	s.db.Age(s, 95*day)
	s.wantDeletedSteps(1)
	s.wantStep(begunAgo(taking("b"), 100*day), store.StepTooOld)
	for _, change := range []func(*store.Step){func(t *store.Step) { t.Name = "reserve" },
		func(t *store.Step) { t.Consumer = "mail" }} {
		step := begunAgo(taking("b"), 100*day)
		change(&step)
		s.wantStep(step, store.StepAbsent)
	}
}

// stepStaysWhileKept checks that a step stays while its message is parked or its call is in progress.
func (s *suite[TTx]) stepStaysWhileKept() {
	p, step := parked("k", 1), begunAgo(taking("a"), 100*day)
	step.Identity = p.Identity
	s.apply(store.Effect{Park: &store.Park{Parked: p, Step: &step}})
	undo := undoing("a")
	undo.Begun = step.Begun
	s.step(undo, store.StepParked)
	call := begunAgo(taking("b"), 100*day)
	call.State = store.StepCalling
	s.step(call, store.StepAbsent)
	s.db.Age(s, 95*day)
	s.wantDeletedSteps(0)
	s.wantStep(step, store.StepBarred)
	s.apply(freed(p, nil))
	s.wantDeletedSteps(1)
	s.wantStep(step, store.StepTooOld)
	s.wantStep(call, store.StepCalling)
}
