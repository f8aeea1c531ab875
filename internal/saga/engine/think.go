package engine

import (
	"context"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/body"
	"github.com/skald-go/skald/internal/saga/plan"
)

// think does, in memory, what needs no transaction of the user's: it is stored with what comes next.
// Conditions and occurrences are asked, commands are written down, times are set.
func (l *live[TTx]) think(ctx context.Context) {
	for !l.careful && l.thinkOnce(ctx, false) {
	}
}

// thinkAll is think, and has children started, or told: in a transaction of their own, so that what is wrong
// with one undoes nothing else.
func (l *live[TTx]) thinkAll(ctx context.Context) {
	for l.thinkOnce(ctx, true) && !l.careful {
	}
}

func (l *live[TTx]) thinkOnce(ctx context.Context, children bool) (did bool) {
	for _, a := range l.d.Plan.Pending(l.state) {
		step, _ := l.d.Step(a.Step)
		switch {
		case a.Verb == plan.DecideStep:
			l.decide(a, step)
		case step.Tx != nil:
			continue
		case step.Until != nil:
			l.until(a, step)
		case step.Command != nil:
			l.command(ctx, a, step)
		case step.Child != nil && children:
			l.child(a, step)
		default:
			continue
		}
		if did, l.thought = true, &a; l.careful {
			break
		}
	}
	return did
}

// decide asks a step's condition and occurrences.
func (l *live[TTx]) decide(a plan.Action, step *body.Step) {
	e := plan.Event{What: plan.Decided, Step: a.Step}
	f := l.facts(a)
	err := l.guard(func() (err error) {
		if step.When != nil {
			is, err := step.When(f)
			if e.Skip = !is; err != nil || e.Skip {
				return err
			}
		}
		if step.Each != nil {
			e.Occurrences, err = step.Each(f)
		}
		return err
	})
	if err == nil {
		err = l.feedData(e)
	}
	if err != nil {
		l.wrong(a, err)
	}
}

// until asks what time a step waits for.
func (l *live[TTx]) until(a plan.Action, step *body.Step) {
	e := plan.Event{What: plan.Sent, Step: a.Step, Occurrence: a.Occurrence}
	f := l.facts(a)
	err := l.guard(func() (err error) {
		e.Until, err = step.Until(f)
		return err
	})
	if err != nil {
		l.wrong(a, err)
		return
	}
	l.feed(e)
	if !e.Until.After(l.e.clock.Now()) {
		l.feed(plan.Event{What: plan.Tick})
	}
}

// command writes down a message to a participant. It is emitted with the state that says so.
func (l *live[TTx]) command(ctx context.Context, a plan.Action, step *body.Step) {
	e, c := plan.Event{What: plan.Sent, Step: a.Step, Occurrence: a.Occurrence}, step.Command
	if a.Verb == plan.UndoStep {
		e.What, c = plan.UndoSent, step.Undo
	}
	var d skald.Draft
	f := l.facts(a)
	err := l.guard(func() (err error) {
		d, err = c.Draft(f)
		return err
	})
	var m skald.Message
	if err == nil {
		m, err = l.message(ctx, a, d)
	}
	if err != nil {
		l.wrong(a, err)
		return
	}
	l.rows = append(l.rows, m)
	l.feed(e)
}
