package plan_test

import (
	"testing"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
)

// TestEndedStepsAreStuckInTheirTurn checks the steps of a transaction that a function ended. Each step gets
// stuck when it begins. If the saga turns back before that, all of them get stuck immediately, and are undone
// after an operator has completed them.
func TestEndedStepsAreStuckInTheirTurn(t *testing.T) {
	p := plan.New(plan.Graph{Name: "ended", Steps: []plan.Step{
		{Name: "a", Kind: plan.Do, Undo: true}, {Name: "b", Kind: plan.Do, Undo: true, After: []string{"a"}},
		{Name: "c", Kind: plan.Do, Undo: true, After: []string{"b"}}}})
	ended := plan.Event{What: plan.Failed, Step: "a", Permanent: true, Stick: true,
		With: []plan.Member{{Step: "b"}}}
	play := func(events ...plan.Event) plan.State {
		s, _ := p.Begin("id", time.Now())
		for _, e := range events {
			next, _, out := p.Advance(s, e, time.Now())
			if out != plan.Taken {
				t.Errorf("%s %s is %s", e.What, e.Step, out)
			}
			s = next
		}
		return s
	}
	done := func(step string) plan.Event { return plan.Event{What: plan.Complete, Step: step} }
	if b, is := play(ended).Run("b", ""); is {
		t.Errorf("b has begun: %+v", b)
	}
	s := play(ended, done("a"))
	if b, _ := s.Run("b", ""); !b.Stuck || !b.Unsure || len(p.Pending(s)) > 0 || len(s.Ended) > 0 {
		t.Errorf("%+v", s)
	}
	s = play(ended, done("a"), done("b"))
	if c, _ := s.Run("c", ""); c.Phase != plan.Ready || c.Stuck {
		t.Errorf("%+v", s)
	}
	s = play(ended, done("a"), plan.Event{What: plan.Retry, Step: "b"})
	if b, _ := s.Run("b", ""); b.Stuck || len(p.Pending(s)) != 1 {
		t.Errorf("%+v", s)
	}
	cancel := plan.Event{What: plan.Cancel}
	s = play(ended, cancel, done("a"))
	if b, _ := s.Run("b", ""); !b.Stuck || len(p.Pending(s)) > 0 {
		t.Errorf("%+v", s)
	}
	s = play(ended, cancel, done("a"), done("b"))
	if b, _ := s.Run("b", ""); b.Phase != plan.Undo || len(p.Pending(s)) != 1 {
		t.Errorf("%+v", s)
	}
	s = play(ended, cancel, done("a"), plan.Event{What: plan.Skip, Step: "b"})
	if a, _ := s.Run("a", ""); a.Phase != plan.Undo {
		t.Errorf("%+v", s)
	}
}

// TestEndedUndosAreStuckInTheirTurn checks the same for a transaction of undos.
func TestEndedUndosAreStuckInTheirTurn(t *testing.T) {
	p := plan.New(plan.Graph{Name: "ended", Steps: []plan.Step{
		{Name: "a", Kind: plan.Do, Undo: true}, {Name: "b", Kind: plan.Do, Undo: true, After: []string{"a"}},
		{Name: "c", Kind: plan.Do, After: []string{"b"}}}})
	s, _ := p.Begin("id", time.Now())
	for _, e := range []plan.Event{{What: plan.Succeeded, Step: "a"}, {What: plan.Succeeded, Step: "b"},
		{What: plan.Cancel}, {What: plan.UndoFailed, Step: "b", Permanent: true, Stick: true,
			With: []plan.Member{{Step: "a", Undo: true}}},
		{What: plan.Complete, Step: "b"}} {
		s, _, _ = p.Advance(s, e, time.Now())
	}
	if a, _ := s.Run("a", ""); a.Phase != plan.Undo || !a.Stuck || len(p.Pending(s)) > 0 {
		t.Errorf("%+v", s)
	}
}
