package engine

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
)

// Think does, in memory, what needs no transaction of the user's: it is stored with what comes next.
// Conditions and occurrences are asked, commands are written down, times are set.
func (s *saga) Think(ctx context.Context) {
	for !s.careful && s.thinkOnce(ctx, false) {
	}
}

// ThinkAll is Think, and has children started, or told: in a transaction of their own, so that what is wrong
// with one undoes nothing else.
func (s *saga) ThinkAll(ctx context.Context) {
	for s.thinkOnce(ctx, true) && !s.careful {
	}
}

func (s *saga) thinkOnce(ctx context.Context, children bool) (did bool) {
	for _, a := range s.Next() {
		step, _ := s.Def.Step(a.Step)
		switch {
		case a.Verb == plan.DecideStep:
			s.decide(a, step)
		case step.InTx():
			continue
		case step.Until != nil:
			s.until(a, step)
		case step.Command != nil:
			s.command(ctx, a, step)
		case step.Child != nil && children:
			s.child(a, step)
		default:
			continue
		}
		if did, s.thought = true, &a; s.careful {
			break
		}
	}
	return did
}

// decide asks a step's condition and occurrences.
func (s *saga) decide(a plan.Action, step *StepBody) {
	e := plan.Event{What: plan.Decided, Step: a.Step}
	f := s.Facts(a)
	err := s.Guard(func() (err error) {
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
		err = s.FeedData(e)
	}
	if err != nil {
		s.Wrong(a, err)
	}
}

// until asks what time a step waits for.
func (s *saga) until(a plan.Action, step *StepBody) {
	e := plan.Event{What: plan.Sent, Step: a.Step, Occurrence: a.Occurrence}
	f := s.Facts(a)
	err := s.Guard(func() (err error) {
		e.Until, err = step.Until(f)
		e.Until = e.Until.UTC() // JSON has no seconds of an offset, and no offset of a day
		return err
	})
	if err != nil {
		s.Wrong(a, err)
		return
	}
	s.Feed(e)
	if !e.Until.After(s.clock.Now()) {
		s.Feed(plan.Event{What: plan.Tick})
	}
}

// command writes down a message to a participant. It is emitted with the state that says so.
func (s *saga) command(ctx context.Context, a plan.Action, step *StepBody) {
	e, c := plan.Event{What: plan.Sent, Step: a.Step, Occurrence: a.Occurrence}, step.Command
	if a.Verb == plan.UndoStep {
		e.What, c = plan.UndoSent, step.Undo
	}
	var d skald.Draft
	f := s.Facts(a)
	err := s.Guard(func() (err error) {
		d, err = c.Draft(f)
		return err
	})
	var m skald.Message
	if err == nil {
		m, err = s.message(ctx, a, d)
	}
	if err != nil {
		s.Wrong(a, err)
		return
	}
	s.rows = append(s.rows, m)
	s.Feed(e)
}

// child has a child started, or told to turn back.
func (s *saga) child(a plan.Action, step *StepBody) {
	e := plan.Event{What: plan.Sent, Step: a.Step, Occurrence: a.Occurrence}
	run, _ := s.State.Run(a.Step, a.Occurrence)
	c := child{Action: a, Def: step.Child.Definition, Parent: sagarow.Ancestor{Name: s.Row.Name,
		Key: s.Row.Key, ID: s.Row.ID, Step: run.Born(), Occurrence: a.Occurrence}}
	f := s.Facts(a)
	err := s.Guard(func() (err error) {
		var was ended
		switch a.Verb {
		case plan.RunStep:
			in, err := step.Child.Input(f)
			if err != nil {
				return err
			}
			if c.Key, c.Input, err = c.Def.Encode(in); err != nil {
				return err
			}
			if err = checkAddress(c.Def.Name, c.Key); err != nil {
				return skald.Permanent(err)
			}
			e.Memo, err = json.Marshal(ended{Key: c.Key})
			return err
		case plan.UndoStep:
			if run.Sends == 0 {
				return skald.Permanent(errors.New("it was completed by hand, and no child was started: " +
					"undo what was done instead, then skip its undo"))
			}
			e.What, e.Memo = plan.UndoSent, run.Output
			err = json.Unmarshal(run.Output, &was)
		default:
			err = json.Unmarshal(run.Memo, &was)
		}
		c.Key = was.Key
		return err
	})
	if err == nil {
		err = s.FeedData(e)
	}
	if err != nil {
		s.Wrong(a, err)
		return
	}
	s.family = append(s.family, c)
}
