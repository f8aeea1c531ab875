package plan_test

import (
	"flag"
	"testing"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/seeded"
)

// advance is plan.Plan.Advance, or a version with a bug.
type advance func(p *plan.Plan, s plan.State, e plan.Event,
	now time.Time) (plan.State, []plan.Action, plan.Outcome)

// mutant changes a transition to add a bug.
type mutant struct {
	bug, says string
	event     func(p *plan.Plan, was plan.State, e plan.Event) plan.Event
	after     func(p *plan.Plan, was plan.State, e plan.Event, s *plan.State, out plan.Outcome) plan.Outcome
}

func mutants() []mutant {
	return []mutant{
		{bug: "the first step is undone first", says: `which began later`, after: firstFirst},
		{bug: "what was refused is undone", says: `undoes what was not done`, after: undoesRefused},
		{bug: "a step in flight is forgotten", says: `nothing will ever move it|and was undone 0 times`,
			after: forgetsFlight},
		{bug: "what may stand is forgotten", after: forgetsDoubt,
			says: `before it is known what became of|nothing will ever move it`},
		{bug: "a timer starts what is done already", says: `took effect ([2-9]|\d\d+) times`,
			after: startsAgain},
		{bug: "a saga ends while a branch is open", says: `it is done without`, after: endsEarly},
		{bug: "a cancellation turns back what is past its pivot", says: `turned back after its pivot`,
			after: turnsLate},
		{bug: "a reply counts twice", says: `was taken twice`, after: countsTwice},
		{bug: "what took effect late is not undone",
			says: `and was undone 0 times|took effect, and the saga is compensated`, event: dropsLate},
	}
}

// advancing returns the version with the bug of this process.
func advancing() advance {
	for _, m := range mutants() {
		if m.bug == seeded.Bug() {
			return m.advance
		}
	}
	return (*plan.Plan).Advance
}

// TestSeededBugs: the model finds each bug.
func TestSeededBugs(t *testing.T) {
	for _, m := range mutants() {
		t.Run(m.bug, func(t *testing.T) { seeded.Find(t, m.bug, "^TestModel$", m.says) })
	}
}

// hurry makes rapid run many checks from a fixed seed, and report failures without shrinking.
func hurry(t *testing.T) {
	if seeded.Bug() == "" {
		return
	}
	for name, value := range map[string]string{"rapid.checks": "20000", "rapid.seed": "1",
		"rapid.shrinktime": "0s", "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
}

func (m mutant) advance(p *plan.Plan, was plan.State, e plan.Event,
	now time.Time) (plan.State, []plan.Action, plan.Outcome) {
	if m.event != nil {
		e = m.event(p, was, e)
	}
	s, actions, out := p.Advance(was, e, now)
	if m.after == nil {
		return s, actions, out
	}
	s.Runs = append([]plan.Run(nil), s.Runs...)
	if out = m.after(p, was, e, &s, out); !out.Changed() {
		return was, nil, out
	}
	return s, p.Pending(s), out
}

func turned(was, is plan.State) bool {
	return was.Status == plan.Running && (is.Status == plan.Compensating || is.Status == plan.Compensated)
}

func firstFirst(p *plan.Plan, was plan.State, _ plan.Event, s *plan.State, out plan.Outcome) plan.Outcome {
	for i := range s.Runs {
		r := &s.Runs[i]
		if before, _ := was.Run(r.Step, r.Occurrence); r.Phase != plan.Undo || before.Phase == plan.Undo {
			continue
		}
		for j := range i {
			if step, _ := p.Step(s.Runs[j].Step); step.Undo && s.Runs[j].Phase == plan.IsDone {
				r.Phase, s.Runs[j].Phase = plan.IsDone, plan.Undo
				return out
			}
		}
	}
	return out
}

func undoesRefused(p *plan.Plan, was plan.State, _ plan.Event, s *plan.State, out plan.Outcome) plan.Outcome {
	for i := range s.Runs {
		if step, _ := p.Step(s.Runs[i].Step); turned(was, *s) && step.Undo &&
			s.Runs[i].Phase == plan.Refused {
			s.Runs[i].Phase, s.Status = plan.Undo, plan.Compensating
		}
	}
	return out
}

func forgetsFlight(_ *plan.Plan, was plan.State, _ plan.Event, s *plan.State, out plan.Outcome) plan.Outcome {
	for i := range s.Runs {
		if r := &s.Runs[i]; turned(was, *s) && r.Sent && (r.Phase == plan.Ready || r.Phase == plan.Waiting) {
			*r = plan.Run{Step: r.Step, Occurrence: r.Occurrence, Phase: plan.Dropped}
		}
	}
	return out
}

func forgetsDoubt(_ *plan.Plan, was plan.State, _ plan.Event, s *plan.State, out plan.Outcome) plan.Outcome {
	for i := range s.Runs {
		if r := &s.Runs[i]; turned(was, *s) && r.Unsure {
			*r = plan.Run{Step: r.Step, Occurrence: r.Occurrence, Phase: plan.Dropped}
		}
	}
	return out
}

func startsAgain(p *plan.Plan, _ plan.State, e plan.Event, s *plan.State, out plan.Outcome) plan.Outcome {
	for i := range s.Runs {
		step, _ := p.Step(s.Runs[i].Step)
		if e.What == plan.Tick && s.Status == plan.Running && step.Kind == plan.Do &&
			s.Runs[i].Phase == plan.IsDone {
			s.Runs[i].Phase, out = plan.Ready, plan.Taken
		}
	}
	return out
}

func endsEarly(p *plan.Plan, _ plan.State, _ plan.Event, s *plan.State, out plan.Outcome) plan.Outcome {
	last := p.Graph.Steps[len(p.Graph.Steps)-1].Name
	if r, _ := s.Run(last, ""); s.Status == plan.Running && r.Phase == plan.IsDone {
		s.Status = plan.Done
	}
	return out
}

func turnsLate(_ *plan.Plan, _ plan.State, e plan.Event, s *plan.State, out plan.Outcome) plan.Outcome {
	if e.What == plan.Cancel && out == plan.TooLate && s.Status == plan.Running {
		s.Status, out = plan.Compensating, plan.Taken
	}
	return out
}

func countsTwice(_ *plan.Plan, _ plan.State, e plan.Event, _ *plan.State, out plan.Outcome) plan.Outcome {
	if e.What == plan.Succeeded && out == plan.Repeat {
		return plan.Taken
	}
	return out
}

func dropsLate(_ *plan.Plan, was plan.State, e plan.Event) plan.Event {
	if was.Status == plan.Compensating && e.What == plan.Succeeded {
		e.What, e.Sends = plan.Rejected, 0
	}
	return e
}
