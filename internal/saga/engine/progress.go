// This file works out, in memory, how a saga in hand goes on: as it was read, as it is to be, and what
// is stored with that. It knows no database.

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// usualTimeout is that of a function whose policy names none.
const usualTimeout = 30 * time.Second

// A saga is one that is worked on, by one goroutine.
type saga struct {
	Def    *Definition
	Row    store.Saga // as it was read or written last
	Origin sagarow.Origin
	State  plan.State                   // as it is to be
	Failed func(name string, err error) // is told how functions of the definition fail; for any goroutine
	// Uncharged is how long failures by what may pass are free. They stay free while Up is false, and as long
	// again from since on, when the database came back; zero: it was not away.
	Uncharged time.Duration
	Up        func() (since time.Time, up bool)

	clock    *storeClock
	straight bool // functions run in the caller's goroutine: a test's
	input    json.RawMessage

	was     plan.State // as it was read or written last
	dirty   bool       // State is not stored yet
	hash    string     // to be stored with it: of another definition; "": as it is
	rows    []skald.Message
	family  []child
	told    []plan.Action // alarms, and that it ends
	thought *plan.Action  // the last one of those that were thought, and are not stored
	careful bool          // each is stored by itself: of several together the database has refused one
	wary    bool          // something of it may have ended its process: what is run is noted, alone, before
}

// newProgress is a saga that was read as s, of d or of an older definition. Straight: its functions run in
// the caller's goroutine.
func newProgress(s store.Saga, d *Definition, older plan.Graph, clock *storeClock,
	straight bool) (is saga, err error) {
	is = saga{Def: d, input: json.RawMessage(s.Input), clock: clock, straight: straight}
	if is.Origin, err = sagarow.OriginOf(s); err != nil {
		return is, err
	}
	err = is.Read(s, older) // which changes is
	return is, err
}

// Read replaces the state of s by that of row.
func (s *saga) Read(row store.Saga, older plan.Graph) (err error) {
	s.Row, s.dirty, s.hash, s.rows, s.family, s.told, s.thought = row, false, "", nil, nil, nil, nil
	if s.State, err = sagarow.StateOf(row, s.Def.Plan.Graph.Deadline); err != nil {
		return err
	}
	s.was, s.wary = s.State, s.wary || slices.ContainsFunc(s.State.Runs,
		func(r plan.Run) bool { return r.Crashes > 0 || r.Alone })
	if s.State.Status.Final() { // an operator ended it, and nobody was told yet
		s.told = append(s.told, plan.Action{Verb: plan.Finish, Reason: string(s.State.Status)})
	}
	if row.Hash == s.Def.Hash {
		return nil
	}
	if s.State, err = plan.Move(older, s.Def.Plan.Graph, mapping(s.Def, row.Hash),
		s.State); err != nil {
		return err
	}
	s.hash, s.dirty = s.Def.Hash, true
	s.Feed(plan.Event{What: plan.Tick})
	return nil
}

// Pending is what is to be done next.
func (s *saga) Pending() []plan.Action { return s.Def.Plan.Pending(s.State) }

// Next is what may be done before the next write: of a saga that is wary, what was noted.
func (s *saga) Next() []plan.Action {
	todo := s.Pending()
	if !s.wary {
		return todo
	}
	return slices.DeleteFunc(todo, func(a plan.Action) bool { return !s.noted(a) })
}

func (s *saga) noted(a plan.Action) bool {
	run, _ := s.State.Run(a.Step, a.Occurrence)
	return run.Alone
}

// Note notes what a wary saga is to do next, but what hangs: what ended its process most often. True: that is
// to be stored before it is begun.
func (s *saga) Note(hangs func(plan.Action) bool) bool {
	if !s.wary {
		return false
	}
	var next plan.Action
	for _, a := range s.Pending() {
		switch {
		case hangs(a):
		case s.noted(a):
			return false
		case next.Step == "" || a.Crashes > next.Crashes:
			next = a
		}
	}
	return next.Step != "" && s.Feed(plan.Event{What: plan.Alone, Step: next.Step,
		Occurrence: next.Occurrence}).Changed()
}

// Rest notes that nothing is begun.
func (s *saga) Rest() { s.Feed(plan.Event{What: plan.Alone}) }

// Family are the children that are to be started, or told, in the commit of its state.
func (s *saga) Family() []child { return s.family }

// Related tells whether the state can only be written in a transaction, with those of other sagas.
func (s *saga) Related() bool {
	return len(s.family) > 0 || s.State.Status.Final() && (s.Origin.Parent != nil || s.Holds())
}

// Holds tells whether the saga may hold entities.
func (s *saga) Holds() bool { return s.Def.Plan.Holds(s.State) }

// Dirty tells whether the state is not stored yet.
func (s *saga) Dirty() bool { return s.dirty }

// Thought is the last action that was thought, and is not stored. Nil: there is none.
func (s *saga) Thought() *plan.Action { return s.thought }

// First tells whether what was thought is to be stored before anything else is done.
func (s *saga) First() bool {
	return len(s.family) > 0 || (s.careful || s.wary) && s.thought != nil
}

// Doubt has each thought be stored by itself from now on, since one of several may be why the database
// refuses them. False: none was thought, or each was stored by itself before.
func (s *saga) Doubt() bool {
	if s.thought == nil || s.careful {
		return false
	}
	s.careful = true
	return true
}

// Crashed tells whether something is next that ended its process at least n times.
func (s *saga) Crashed(n int) bool {
	if !slices.ContainsFunc(s.State.Runs, func(r plan.Run) bool { return r.Crashes >= n }) {
		return false
	}
	return slices.ContainsFunc(s.Pending(), func(a plan.Action) bool { return a.Crashes >= n })
}

// Charge counts the end of a process against what the saga was at: what was noted, else what comes first, and
// then it is wary. False: it was at nothing.
func (s *saga) Charge() bool {
	todo := s.Pending()
	if len(todo) == 0 {
		return false
	}
	i := slices.IndexFunc(todo, s.noted)
	switch {
	case i < 0 && s.wary:
		return true // nothing of it had begun
	case i < 0:
		first := slices.MinFunc(todo, func(a, b plan.Action) int { return s.turn(a) - s.turn(b) })
		i = slices.Index(todo, first)
	}
	s.wary = true
	s.Feed(plan.Event{What: plan.Crashed, Step: todo[i].Step, Occurrence: todo[i].Occurrence,
		Reason: fmt.Sprintf("its process (session %s) ended", s.Row.Lapsed)})
	return true
}

// turn is when an action has its turn: first what is thought, requests last.
func (s *saga) turn(a plan.Action) int {
	step, _ := s.Def.Step(a.Step)
	node, _ := s.Def.Plan.Step(a.Step)
	switch {
	case a.Verb == plan.DecideStep || !step.InTx():
		return 0
	case node.Kind == plan.Call && a.Sent:
		return 2
	}
	return 1
}

// Timeout is how long a function may take.
func (s *saga) Timeout(a plan.Action) time.Duration {
	node, _ := s.Def.Plan.Step(a.Step)
	by := node.Try
	if a.Verb != plan.RunStep {
		by = node.Back
	}
	if by.Timeout <= 0 || node.Kind != plan.Do {
		return usualTimeout
	}
	return min(by.Timeout, plan.MaxWait) // to which a pause can be added
}

// Facts are those of an action.
func (s *saga) Facts(a plan.Action) *Facts {
	st := s.State
	return &Facts{Definition: s.Def, Key: s.Row.Key, Input: s.input, State: &st, Step: a.Step,
		Occurrence: a.Occurrence,
		Undo:       a.Verb == plan.UndoStep, Attempt: a.Attempt}
}

func (s *saga) address() string { return Address(s.Row.Name, s.Row.Key, s.Row.ID) }

// Caused is ctx for a function of the user's: what it emits is stamped as the saga's.
func (s *saga) Caused(ctx context.Context) context.Context {
	ctx = context.WithValue(ctx, runsFor{}, store.SagaRef{Name: s.Row.Name, Key: s.Row.Key})
	return skald.WithCause(ctx, skald.Message{ID: s.Origin.Causation, CorrelationID: s.address(),
		TraceParent: s.Origin.Trace})
}

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
	e, m, err := s.draft(ctx, a, step)
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
// cannot be encoded, that is an ordinary failure of a. Returns false if the saga does not take it.
func (s *saga) Wrong(a plan.Action, err error) bool {
	e := failed(a, err)
	var rows []skald.Message
	if e.What == plan.Rejected || e.Permanent {
		if rows, err = s.rejection(err); err != nil {
			e = failed(a, err)
		}
	}
	taken := s.Feed(e).Changed()
	if taken {
		s.rows = append(s.rows, rows...)
	}
	return taken
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

// Move writes the state as it is to be. Mine: session has the saga; else whoever has it is to look again.
func (s *saga) Move(session string) (m store.SagaMove, mine bool, err error) {
	now := s.clock.Now()
	if m, err = sagarow.MoveTo(s.Row, s.State, now); err != nil {
		return m, false, err
	}
	m.Hash = s.hash
	if s.Row.Session != session {
		return sagarow.Released(m, s.State, now, true), false, nil
	}
	return m, true, nil
}

// GivenBack is m with the lease given back.
func (s *saga) GivenBack(m store.SagaMove) store.SagaMove {
	m = sagarow.Released(m, s.State, s.clock.Now(), len(s.Pending()) > 0)
	m.Lease = 0
	return m
}

// Effect is m with the commands that were thought.
func (s *saga) Effect(m *store.SagaMove) store.Effect { return store.Effect{Saga: m, Rows: s.rows} }

// Wrote notes that m stands. It returns how the saga stood before, and what is to be told.
func (s *saga) Wrote(m *store.SagaMove) (was plan.State, told []plan.Action) {
	s.Row.Version, s.Row.State, s.Row.Standing = m.Version+1, m.State, m.Standing
	if m.Hash != "" {
		s.Row.Hash = m.Hash
	}
	was, told = s.was, s.told
	s.was, s.dirty, s.hash, s.rows, s.family, s.thought, s.told = s.State, false, "", nil, nil, nil, nil
	return was, told
}
