package storetest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/skald-go/skald/store"
)

// stepAtOnce runs a take and an undo concurrently. One of them is first, and both get consistent results.
func (s *suite[TTx]) stepAtOnce() {
	for i := range 20 {
		saga := fmt.Sprint("saga-", i)
		var wg sync.WaitGroup
		var found [2]store.StepState
		for n, step := range []store.Step{taking(saga), undoing(saga)} {
			d := s.db.Driver(s)
			wg.Go(func() {
				u, err := d.Begin(s.Context(), stepping(step))
				if err != nil {
					s.Errorf("begin: %v", err)
					return
				}
				found[n] = u.Found().Steps[0].State
				if err := u.Commit(s.Context()); err != nil {
					s.Errorf("commit: %v", err)
				}
			})
		}
		wg.Wait()
		if found != [2]store.StepState{store.StepAbsent, store.StepDone} &&
			found != [2]store.StepState{store.StepBarred, store.StepAbsent} {
			s.Fatalf("taken as %v, undone as %v", found[0], found[1])
		}
	}
}

// stepRivalWaits checks that a message waits for a step in progress, and finds its outcome.
func (s *suite[TTx]) stepRivalWaits() {
	for i, c := range []struct {
		first, second store.Step
		rollback      bool
		want          store.StepState
	}{
		{taking("a"), undoing("a"), false, store.StepDone},
		{taking("b"), undoing("b"), true, store.StepAbsent},
		{undoing("c"), taking("c"), false, store.StepBarred},
		{undoing("d"), taking("d"), true, store.StepAbsent},
		{taking("e"), taking("e"), false, store.StepDone},
		{undoing("f"), undoing("f"), false, store.StepBarred},
	} {
		u, rival := s.begin(s.d, stepping(c.first)), s.db.Driver(s)
		impatient := stepping(c.second)
		impatient.Wait = shortly
		_, err := rival.Begin(s.Context(), impatient)
		s.wantError(err, store.ErrBusy, "a step that is in hand")
		var found []store.Step
		done := meanwhile(func() {
			v, err := rival.Begin(s.Context(), stepping(c.second))
			if err == nil {
				found = slices.Clone(v.Found().Steps)
				_, err = v.Rollback(s.Context())
			}
			if err != nil {
				s.Errorf("the rival: %v", err)
			}
		})
		s.wantBlocked(done, "a rival for a step")
		if c.rollback {
			s.rollback(u)
		} else {
			s.commit(u)
		}
		s.comes(done, "a rival for a step")
		if len(found) != 1 || found[0].State != c.want {
			s.Errorf("%d: the rival finds %+v, want %v", i, found, c.want)
		}
	}
}

// stepNoCircle checks that several steps of one intake are locked in a common order.
func (s *suite[TTx]) stepNoCircle() {
	var wg sync.WaitGroup
	for n := range 4 {
		d := s.db.Driver(s)
		wg.Go(func() {
			for i := range 10 {
				steps := []store.Step{taking("a"), undoing("b"), taking("c"), undoing("d")}
				if (n+i)%2 == 1 {
					slices.Reverse(steps)
				}
				u, err := d.Begin(s.Context(), stepping(steps...))
				if err != nil {
					s.Errorf("begin: %v", err)
					return
				}
				_, _ = u.Rollback(s.Context())
			}
		})
	}
	wg.Wait()
	u := s.begin(s.d, stepping(taking("a"), undoing("a"), taking("a")))
	if got := u.Found().Steps; got[0].State != store.StepAbsent || got[1].State != store.StepDone ||
		got[2].State != store.StepUndone {
		s.Errorf("one step three times in an intake: %+v", got)
	}
	s.rollback(u)
}

// stepGoesBesideRival checks a message that arrives while its step is deleted. It finds either the step or
// StepTooOld.
func (s *suite[TTx]) stepGoesBesideRival() {
	if !s.can.Rivals {
		return
	}
	s.step(begunAgo(taking("a"), 100*day), store.StepAbsent)
	s.db.Age(s, 95*day)
	undo := begunAgo(undoing("a"), 100*day)
	u := s.begin(s.d, stepping(undo))
	// a forecast ignores locks
	got, err := s.d.Maintain(s.Context(), store.Maintain{Keep: week()})
	if s.ok(err, "maintain"); got.Steps != 0 || u.Found().Steps[0].State != store.StepDone {
		s.Fatalf("a step in hand is forgotten: %+v; found %+v", got, u.Found().Steps)
	}
	s.commit(u)
	s.wantDeletedSteps(1)
	s.wantStep(undo, store.StepTooOld)
}
