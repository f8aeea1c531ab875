package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/internal/saga/plan"
)

// Feed takes an event into the state.
func (s *saga) Feed(e plan.Event) plan.Outcome {
	e.Passing = e.Passing && !s.charges(e)
	next, actions, out := s.Def.Plan.Advance(s.State, e, s.clock.Now())
	if out.Changed() {
		s.State, s.dirty = next, true
		for _, a := range actions {
			if a.Verb == plan.Alarm || a.Verb == plan.Finish {
				s.told = append(s.told, a)
			}
		}
	}
	return out
}

// charges reports whether a failure by what may pass is charged to its run: it has failed so for longer than
// Uncharged, while the database was there.
func (s *saga) charges(e plan.Event) bool {
	run, _ := s.State.Run(e.Step, e.Occurrence)
	if s.Up == nil || !charges(s.Uncharged, run.Free.Since, s.clock.Now(), time.Time{}) {
		return false
	}
	back, up := s.Up()
	return up && charges(s.Uncharged, run.Free.Since, s.clock.Now(), back)
}

// FeedData is Feed for an event with data: that may be too large to be kept.
func (s *saga) FeedData(e plan.Event) error {
	if s.Feed(e) == plan.TooLarge {
		return skald.Permanent(s.Def.Plan.Large(s.State, e, s.clock.Now()))
	}
	return nil
}

// FeedEffect is Feed for what took effect. Where its output is too large to be kept it is done without, and
// turned back.
func (s *saga) FeedEffect(e plan.Event) {
	if err := s.FeedData(e); err != nil {
		s.Feed(without(e, err))
	}
}

// Wrong feeds an error of a function of the user's. The events of a rejection are stored with it. If they
// cannot be encoded, that is an ordinary failure of a.
func (s *saga) Wrong(a plan.Action, err error) {
	e := failed(a, err)
	var rows []skald.Message
	if e.What == plan.Rejected || e.Permanent {
		if rows, err = s.rejection(err); err != nil {
			e = failed(a, err)
		}
	}
	if s.Feed(e).Changed() {
		s.rows = append(s.rows, rows...)
	}
}

// rejection completes the events of a skald.Reject in err. An error without a rejection has none.
func (s *saga) rejection(err error) ([]skald.Message, error) {
	var no *skald.RejectedError
	if !errors.As(err, &no) || len(no.Say) == 0 {
		return nil, nil
	}
	c := complete.Completer{Now: s.clock.Now}
	rows, err := c.Messages(s.Caused(context.Background()), no.Say)
	if err != nil {
		return nil, fmt.Errorf("encode the events of skald.Reject: %w", err)
	}
	return rows, nil
}

// Guard runs a function of the user's.
func (s *saga) Guard(f func() error) error {
	err := run(f, s.straight)
	if err != nil && s.Failed != nil {
		s.Failed(s.Def.Name, err)
	}
	return err
}

// Turn feeds that it may be the saga's turn at its entities.
func (s *saga) Turn() {
	if s.Def.Plan.Locks() {
		s.Feed(plan.Event{What: plan.Turn})
	}
}

// Due feeds that it is time for what waits until now.
func (s *saga) Due() {
	if next := s.State.Next(); !next.IsZero() && !next.After(s.clock.Now()) {
		s.Feed(plan.Event{What: plan.Tick})
	}
}
