// This file works out, in memory, how a saga in hand goes on: as it was read, as it is to be, and what
// is stored with that. It knows no database.

package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald"
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

func (s *saga) address() string { return of(s.Row.Name, s.Row.Key, s.Row.ID) }

// Caused is ctx for a function of the user's: what it emits is stamped as the saga's.
func (s *saga) Caused(ctx context.Context) context.Context {
	return skald.WithCause(ctx, skald.Message{ID: s.Origin.Causation, CorrelationID: s.address(),
		TraceParent: s.Origin.Trace})
}
