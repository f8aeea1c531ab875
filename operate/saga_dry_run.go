package operate

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// trySagas is the dry run of ChangeSagas. It computes each change without writing it.
func trySagas(ctx context.Context, db store.Lister, s *SagaSelection, c *SagaChange,
	o *Order) (r SagaReport, err error) {
	plans, err := readPlans(ctx, db)
	if err != nil {
		return r, err
	}
	only := single{of: s, run: o.Run}
	err = eachSaga(ctx, db, s, false, func(one store.Saga) error {
		if err := only.check(&one); err != nil {
			return err
		}
		r.Selected++
		read := SagaRead{row: one, plan: plans[one.Hash]}
		if err := read.readState(); err != nil {
			r.Left = append(r.Left, LeftSaga{Name: one.Name, Key: one.Key, Why: err.Error()})
			return nil
		}
		if _, _, left := c.try(&one, read.state, read.plan, o); left != nil {
			r.Left = append(r.Left, *left)
		} else {
			r.Done++
		}
		return nil
	})
	switch {
	case err != nil:
		return SagaReport{}, err
	case r.Selected == 0:
		return r, s.noMatch()
	}
	return r, c.partly(&r)
}

// try returns the state of a saga after c, or the reason why c leaves the saga unchanged. p is nil if no
// engine has stored the definition of the saga.
func (c *SagaChange) try(s *store.Saga, st plan.State, p *plan.Plan,
	o *Order) (next plan.State, now time.Time, left *LeftSaga) {
	left = &LeftSaga{Name: s.Name, Key: s.Key}
	if p == nil {
		left.Why = unknownDefinition(s).Error()
		return next, now, left
	}
	now = s.Read // the time of the store: the clock of this machine may differ
	next, _, out := p.Advance(st, c.event(o), now)
	switch {
	case out == plan.TooLarge:
		left.Why, left.Incompatible = p.Large(st, c.event(o), now).Error(), true
	case out.Changed():
		if left.Why, left.Incompatible = c.unfit(p, &st), true; left.Why == "" {
			return next, now, nil
		}
	case st.Status.Final() && (out != plan.Repeat || c.Verb == RetrySaga):
		left.Why = "it has ended: " + s.Status
	case out == plan.Repeat:
		left.Why, left.Unneeded = c.whyUnchanged(&st, p), true
	default:
		left.Why, left.Incompatible = c.refused(out, &st, p)
	}
	return next, now, left
}

// refused explains why the change c had no effect. The result unfit reports whether the change does not fit
// the definition of the saga.
func (c *SagaChange) refused(out plan.Outcome, st *plan.State, p *plan.Plan) (why string, unfit bool) {
	r, begun := st.Run(c.Step, c.Occurrence)
	step, _ := p.Step(c.Step)
	switch {
	case out == plan.Unknown && c.Verb == SignalSaga:
		return c.unknownSignal(st, p)
	case out == plan.Unknown:
		return c.unknownStep(st, p)
	case out == plan.NotWaiting && c.Verb == RetrySaga && begun && r.Unsure:
		return notAgain(&r), false
	case out == plan.NotWaiting && c.Verb == RetrySaga && begun && r.Phase == plan.Waiting:
		w, _ := waitOf(p, &r)
		what := map[string]string{WaitSignal: "its signal", WaitTime: "its time",
			WaitChild: "its child", WaitEntities: "entities that other sagas hold"}[w.Kind]
		return fmt.Sprintf("%s waits for %s, so there is no attempt to repeat",
			sagarow.StepName(c.Step, c.Occurrence), cmp.Or(what, "its reply")), false
	case out == plan.NotWaiting && c.Verb == RetrySaga && begun && r.Phase == plan.Undoing:
		what := "for the reply to its undo"
		if step.Kind == plan.Child {
			what = "until its child is undone"
		}
		return fmt.Sprintf("%s waits %s, so there is no attempt to repeat", sagarow.StepName(c.Step,
			c.Occurrence),
			what), false
	case out == plan.Runs && step.Kind == plan.Child && c.Verb == CompleteSaga:
		return "its child is running, and would lose its entities: cancel that child, or complete its " +
			"steps", false
	case out == plan.Runs && step.Kind == plan.Child && step.Locks:
		return "its child is running, and nothing would undo its steps: cancel that child", false
	case out == plan.Runs && step.Kind == plan.Child:
		return "its child is running, and nothing would undo its steps: cancel that child, or mark the step as " +
			"done with complete", false
	}
	return outcomeText(out), false
}

// notAgain explains that a run that may have taken effect is not retried while the saga turns back.
func notAgain(r *plan.Run) string {
	return sagarow.StepName(r.Step, r.Occurrence) + " may have taken effect, and does not run again, because the saga " +
		"turns back: check its writes, and complete it or skip it"
}

// whyUnchanged explains why c changes nothing.
func (c *SagaChange) whyUnchanged(st *plan.State, p *plan.Plan) string {
	r, begun := st.Run(c.Step, c.Occurrence)
	switch {
	case c.Verb == RetrySaga && c.Step == "":
		for i := range st.Runs {
			if st.Runs[i].Unsure {
				return notAgain(&st.Runs[i])
			}
		}
		return "it has no stuck step: name a step that waits for its next attempt with --step"
	case c.otherData(st, p) && c.Verb == SignalSaga:
		return "this signal arrived before with another value: the saga keeps the first value, and ignored this one"
	case c.otherData(st, p):
		return fmt.Sprintf("%s is done already with another output: the saga keeps the first output, and ignored this one",
			sagarow.StepName(c.Step, c.Occurrence))
	case begun && (c.Verb == CompleteSaga || c.Verb == SkipSaga):
		return fmt.Sprintf("%s is %s already", sagarow.StepName(c.Step, c.Occurrence), r.Phase)
	}
	return "nothing changes: the saga is in this state already"
}

func (c *SagaChange) unknownStep(st *plan.State, p *plan.Plan) (why string, unfit bool) {
	if _, known := p.Step(c.Step); known {
		return c.unknownOccurrence(st)
	}
	names := make([]string, len(p.Graph.Steps))
	for i := range p.Graph.Steps {
		names[i] = p.Graph.Steps[i].Name
	}
	return fmt.Sprintf("it has no step %q: its steps are %s", c.Step,
		strings.Join(names, ", ")), true
}

func (c *SagaChange) unknownOccurrence(st *plan.State) (why string, unfit bool) {
	var names []string
	for i := range st.Runs {
		if r := &st.Runs[i]; r.Step == c.Step && r.Occurrence != "" {
			names = append(names, r.Occurrence)
		}
	}
	_, begun := st.Run(c.Step, c.Occurrence)
	switch {
	case len(names) > 0:
		return fmt.Sprintf("its step %s has no such occurrence: the occurrences that have begun are %s", c.Step,
			strings.Join(names, ", ")), true
	case begun:
		return fmt.Sprintf("the occurrences of its step %s are not known yet", c.Step), false
	}
	return fmt.Sprintf("its step %s has not begun", sagarow.StepName(c.Step, c.Occurrence)), false
}

func (c *SagaChange) unknownSignal(st *plan.State, p *plan.Plan) (why string, unfit bool) {
	var names []string
	for i := range p.Graph.Steps {
		s := &p.Graph.Steps[i]
		if s.Signal == c.Signal && s.Kind == plan.Wait {
			return p.NoSignal(*st, c.Signal, c.Occurrence).Error(), true
		}
		if s.Kind == plan.Wait && s.Signal != "" {
			names = append(names, s.Signal)
		}
	}
	if len(names) == 0 {
		return fmt.Sprintf("it has no signal %q, and no other signal", c.Signal), true
	}
	return fmt.Sprintf("it has no signal %q: its signals are %s", c.Signal, strings.Join(names, ", ")), true
}
