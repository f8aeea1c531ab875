// This file computes in memory how a saga continues. The type saga has the state that was read, the new
// state, and the messages to store with the new state. It does not use a database.

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// usualTimeout is the timeout of a function for which the definition sets no timeout.
const usualTimeout = 30 * time.Second

// saga is a saga in progress. Only one goroutine uses it.
type saga struct {
	Def    *Definition
	Row    store.Saga // as last read or written
	Origin sagarow.Origin
	State  plan.State                   // the new state
	Failed func(name string, err error) // called with each error of a function; safe for concurrent use
	// OutageRetryTime is the time for which transient failures do not count as attempts. They also do not
	// count while Up returns false, and for OutageRetryTime after since, the end of an outage.
	OutageRetryTime time.Duration
	Up              func() (since time.Time, up bool)

	// hanging lists the functions that did not return within pureTime. If hanging is nil, functions without a
	// context may take any time.
	hanging  *functions
	pureTime time.Duration

	clock    *storeClock
	straight bool // functions run in the caller's goroutine, for tests
	input    json.RawMessage

	was      plan.State      // as last read or written
	dirty    bool            // State is not stored yet
	hash     string          // hash of the new definition to store with State, or ""
	rows     []skald.Message // to store with State
	family   []child         // to start or turn back with State
	notices  []plan.Action   // alarms, and the end
	prepared *plan.Action    // the last prepared action with a result that is not stored
	oneByOne bool            // each prepared action is stored alone; see Doubt
	mayCrash bool            // it may have crashed its process; see Note
}

// newProgress returns the saga in row s. The argument older is the definition with which s was begun, if
// that is not d. If straight is true, the saga's functions run in the caller's goroutine.
func newProgress(s store.Saga, d *Definition, older plan.Graph, clock *storeClock,
	straight bool) (is saga, err error) {
	is = saga{Def: d, input: json.RawMessage(s.Input), clock: clock, straight: straight}
	if is.Origin, err = sagarow.OriginOf(s); err != nil {
		return is, err
	}
	err = is.Read(s, older) // before the return, because Read changes is
	return is, err
}

// Read replaces the state by that in row. If the saga has an older definition, Read moves the state to the
// definition of this build.
func (s *saga) Read(row store.Saga, older plan.Graph) (err error) {
	s.Row, s.dirty, s.hash, s.rows, s.family, s.notices, s.prepared = row, false, "", nil, nil, nil, nil
	if s.State, err = sagarow.StateOf(row, s.Def.Plan.Graph.Deadline); err != nil {
		return err
	}
	s.was, s.mayCrash = s.State, s.mayCrash || slices.ContainsFunc(s.State.Runs,
		func(r plan.Run) bool { return r.Crashes > 0 || r.Alone })
	if s.State.Status.Final() { // an operator ended it; the waiters must be notified
		s.notices = append(s.notices, plan.Action{Verb: plan.Finish, Reason: string(s.State.Status)})
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

// Pending returns the actions that the saga is to perform next.
func (s *saga) Pending() []plan.Action { return s.Def.Plan.Pending(s.State) }

// Next returns the actions that may begin before the next write. If the saga may have crashed its process, it
// returns only the action that Note stored.
func (s *saga) Next() []plan.Action {
	todo := s.Pending()
	if !s.mayCrash {
		return todo
	}
	return slices.DeleteFunc(todo, func(a plan.Action) bool { return !s.noted(a) })
}

func (s *saga) noted(a plan.Action) bool {
	run, _ := s.State.Run(a.Step, a.Occurrence)
	return run.Alone
}

// Note selects the next action of a saga that may have crashed its process, so that a crash is counted
// against the right action. It selects the action with the most crashes that does not hang. Note returns true
// if the selection must be stored before the action begins.
func (s *saga) Note(hangs func(plan.Action) bool) bool {
	if !s.mayCrash {
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

// Rest clears the selection of Note, because no action is in progress.
func (s *saga) Rest() { s.Feed(plan.Event{What: plan.Alone}) }

// Family returns the children to start or turn back in the commit of the state.
func (s *saga) Family() []child { return s.family }

// Related reports whether the state must be written in one transaction with changes to other sagas or to
// entities.
func (s *saga) Related() bool {
	return len(s.family) > 0 || s.State.Status.Final() && (s.Origin.Parent != nil || s.Holds())
}

// Holds reports whether the saga may hold entities.
func (s *saga) Holds() bool { return s.Def.Plan.Holds(s.State) }

// Dirty reports whether the state is not stored yet.
func (s *saga) Dirty() bool { return s.dirty }

// Prepared returns the last prepared action with a result that is not stored, or nil.
func (s *saga) Prepared() *plan.Action { return s.prepared }

// First reports whether the engine must store prepared actions before it does anything else.
func (s *saga) First() bool {
	return len(s.family) > 0 || (s.oneByOne || s.mayCrash) && s.prepared != nil
}

// StoreOneByOne sets oneByOne after the database refused a commit of several prepared actions. The refusal of
// a later commit then belongs to one action. Doubt returns false if no action is prepared, or if oneByOne was
// set already.
func (s *saga) StoreOneByOne() bool {
	if s.prepared == nil || s.oneByOne {
		return false
	}
	s.oneByOne = true
	return true
}

// Crashed reports whether a next action has crashed its process at least n times.
func (s *saga) Crashed(n int) bool {
	if !slices.ContainsFunc(s.State.Runs, func(r plan.Run) bool { return r.Crashes >= n }) {
		return false
	}
	return slices.ContainsFunc(s.Pending(), func(a plan.Action) bool { return a.Crashes >= n })
}

// CountCrash counts a crash of the process against the action that was in progress, and sets mayCrash. This
// is the action that Note stored, or else the one that runs first. Charge returns false if no action was in
// progress.
func (s *saga) CountCrash() bool {
	todo := s.Pending()
	if len(todo) == 0 {
		return false
	}
	i := slices.IndexFunc(todo, s.noted)
	switch {
	case i < 0 && s.mayCrash:
		return true // no action had begun
	case i < 0:
		first := slices.MinFunc(todo, func(a, b plan.Action) int { return s.runOrder(a) - s.runOrder(b) })
		i = slices.Index(todo, first)
	}
	s.mayCrash = true
	s.Feed(plan.Event{What: plan.Crashed, Step: todo[i].Step, Occurrence: todo[i].Occurrence,
		Reason: fmt.Sprintf("its process (session %s) ended", s.Row.Lapsed)})
	return true
}

// runOrder orders actions by the time at which the engine runs them: actions in memory, then functions in a
// transaction, then requests.
func (s *saga) runOrder(a plan.Action) int {
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

// Timeout returns the timeout of the function for an action.
func (s *saga) Timeout(a plan.Action) time.Duration {
	node, _ := s.Def.Plan.Step(a.Step)
	by := node.Try
	if a.Verb != plan.RunStep {
		by = node.Back
	}
	if by.Timeout <= 0 || node.Kind != plan.Do {
		return usualTimeout
	}
	return min(by.Timeout, plan.MaxWait) // a pause can be added to MaxWait
}

// Facts returns the facts for the function of an action.
func (s *saga) Facts(a plan.Action) *Facts {
	st := s.State
	return &Facts{Definition: s.Def, Key: s.Row.Key, Input: s.input, State: &st, Step: a.Step,
		Occurrence: a.Occurrence,
		Undo:       a.Verb == plan.UndoStep, Attempt: a.Attempt}
}

func (s *saga) address() string { return Address(s.Row.Name, s.Row.Key, s.Row.ID) }

// Caused returns ctx for a user's function. Messages that the function emits then carry the saga's ids.
func (s *saga) Caused(ctx context.Context) context.Context {
	ctx = context.WithValue(ctx, runsFor{}, store.SagaRef{Name: s.Row.Name, Key: s.Row.Key})
	return skald.WithCause(ctx, skald.Message{ID: s.Origin.Causation, CorrelationID: s.address(),
		TraceParent: s.Origin.Trace})
}

// Prepare performs in memory the actions that need no user's transaction. It calls conditions and
// occurrences, drafts commands and computes times. The next write stores the results.
func (s *saga) Prepare(ctx context.Context) {
	for !s.oneByOne && s.prepareOnce(ctx, false) {
	}
}

// PrepareAll is like Prepare, and also prepares the start or the return of children. Children are written in
// their own transaction, so that the error of a child does not roll back other work.
func (s *saga) PrepareAll(ctx context.Context) {
	for s.prepareOnce(ctx, true) && !s.oneByOne {
	}
}

func (s *saga) prepareOnce(ctx context.Context, children bool) (did bool) {
	for _, a := range s.Next() {
		step, _ := s.Def.Step(a.Step)
		switch {
		case s.hanging != nil && s.hanging.Has(hangsOf(s.Row.ID, a)):
			continue
		case a.Verb == plan.DecideStep:
			s.decide(a, step)
		case step.InTx():
			continue
		case step.Until != nil:
			s.computeWait(a, step)
		case step.Command != nil:
			s.command(ctx, a, step)
		case step.Child != nil && children:
			s.child(a, step)
		default:
			continue
		}
		if did, s.prepared = true, &a; s.oneByOne {
			break
		}
	}
	return did
}

// decide calls the functions that decide whether a step runs, and for which occurrences.
func (s *saga) decide(a plan.Action, step *StepBody) {
	e := plan.Event{What: plan.Decided, Step: a.Step}
	f := s.Facts(a)
	err := s.pure(a, func() (err error) {
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
		s.ApplyError(a, err)
	}
}

// entities returns the entities that a Lock step locks. The saga's function computes them.
func (s *saga) entities(a plan.Action, step *StepBody) ([]store.Lock, error) {
	if a.Verb != plan.RunStep {
		return nil, nil
	}
	var es []store.Lock
	f := s.Facts(a)
	err := s.pure(a, func() (err error) {
		es, err = step.Lock(f)
		return err
	})
	if err != nil {
		return nil, err
	}
	return es, nil
}

// computeWait calls the function that computes the end of a wait.
func (s *saga) computeWait(a plan.Action, step *StepBody) {
	e := plan.Event{What: plan.Sent, Step: a.Step, Occurrence: a.Occurrence}
	f := s.Facts(a)
	err := s.pure(a, func() (err error) {
		e.Until, err = step.Until(f)
		e.Until = e.Until.UTC() // JSON supports neither seconds nor a whole day in an offset
		return err
	})
	if err != nil {
		s.ApplyError(a, err)
		return
	}
	s.Feed(e)
	if !e.Until.After(s.clock.Now()) {
		s.Feed(plan.Event{What: plan.Tick})
	}
}

// command drafts a message to a participant. The next write stores the message together with the state.
func (s *saga) command(ctx context.Context, a plan.Action, step *StepBody) {
	e, m, err := s.draft(ctx, a, step)
	if err != nil {
		s.ApplyError(a, err)
		return
	}
	s.rows = append(s.rows, m)
	s.Feed(e)
}

// child adds a child to the family, to start or to turn back with the next write.
func (s *saga) child(a plan.Action, step *StepBody) {
	e := plan.Event{What: plan.Sent, Step: a.Step, Occurrence: a.Occurrence}
	run, _ := s.State.Run(a.Step, a.Occurrence)
	c := child{Action: a, Def: step.Child.Definition, Parent: sagarow.Ancestor{Name: s.Row.Name,
		Key: s.Row.Key, ID: s.Row.ID, Step: run.Born(), Occurrence: a.Occurrence}}
	f := s.Facts(a)
	err := s.pure(a, func() (err error) {
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
		s.ApplyError(a, err)
		return
	}
	s.family = append(s.family, c)
}

// Feed applies an event to the state.
func (s *saga) Feed(e plan.Event) plan.Outcome {
	e.Passing = e.Passing && !s.countsAsAttempt(e)
	next, actions, out := s.Def.Plan.Advance(s.State, e, s.clock.Now())
	if out.Changed() {
		s.State, s.dirty = next, true
		for _, a := range actions {
			if a.Verb == plan.Alarm || a.Verb == plan.Finish {
				s.notices = append(s.notices, a)
			}
		}
	}
	return out
}

// countsAsAttempt reports whether a transient failure counts as an attempt. It counts if the run has failed
// for longer than OutageRetryTime although the database answered.
func (s *saga) countsAsAttempt(e plan.Event) bool {
	run, _ := s.State.Run(e.Step, e.Occurrence)
	if s.Up == nil || !countsAsAttempt(s.OutageRetryTime, run.Free.Since, s.clock.Now(), time.Time{}) {
		return false
	}
	back, up := s.Up()
	return up && countsAsAttempt(s.OutageRetryTime, run.Free.Since, s.clock.Now(), back)
}

// FeedData is like Feed, but returns an error if the data of the event is too large.
func (s *saga) FeedData(e plan.Event) error {
	if s.Feed(e) == plan.TooLarge {
		return skald.Permanent(s.Def.Plan.Large(s.State, e, s.clock.Now()))
	}
	return nil
}

// FeedEffect is like Feed, for a step that took effect. If its output is too large, the step is done without
// an output, and the saga turns back.
func (s *saga) FeedEffect(e plan.Event) {
	if err := s.FeedData(e); err != nil {
		s.Feed(withoutOutput(e, err))
	}
}

// ApplyError applies an error of a user's function. The next write also stores the events that a skald.Reject
// contains. If these cannot be encoded, the action fails instead. Wrong returns false if the error does not
// change the saga.
func (s *saga) ApplyError(a plan.Action, err error) bool {
	e := failureEvent(a, err)
	var rows []skald.Message
	if e.What == plan.Rejected || e.Permanent {
		if rows, err = s.rejection(err); err != nil {
			e = failureEvent(a, err)
		}
	}
	taken := s.Feed(e).Changed()
	if taken {
		s.rows = append(s.rows, rows...)
	}
	return taken
}

// rejection returns the events of a skald.Reject in err, ready to store. It returns no events if err is no
// rejection.
func (s *saga) rejection(err error) ([]skald.Message, error) {
	var no *skald.RejectedError
	if !errors.As(err, &no) || len(no.Publish) == 0 {
		return nil, nil
	}
	c := complete.Completer{Now: s.clock.Now}
	rows, err := c.Messages(s.Caused(context.Background()), no.Publish)
	if err != nil {
		return nil, fmt.Errorf("encode the events of skald.Reject: %w", err)
	}
	return rows, nil
}

// Guard calls a user's function, and reports its error to Failed.
func (s *saga) Guard(f func() error) error {
	return s.reportFailure(run(f, s.straight))
}

// reportFailure reports the error of a user's function to Failed, and returns the error.
func (s *saga) reportFailure(err error) error {
	if err != nil && s.Failed != nil {
		s.Failed(s.Def.Name, err)
	}
	return err
}

// pure calls a user's function that gets no context. It returns an error if the function does not return
// within pureTime. The function's goroutine then continues, so the caller must not use variables that the
// function writes.
func (s *saga) pure(a plan.Action, f func() error) error {
	if s.straight || s.hanging == nil {
		return s.Guard(f)
	}
	h := &hangingFunction{Key: hangsOf(s.Row.ID, a)}
	done := failure.Start(func() error {
		defer s.hanging.Returned(h)
		return f()
	})
	timer := time.NewTimer(s.pureTime)
	defer timer.Stop()
	select {
	case err := <-done:
		return s.reportFailure(err)
	case <-timer.C:
	}
	if !s.hanging.Hangs(h, func() {}) {
		return s.reportFailure(<-done)
	}
	return s.reportFailure(fmt.Errorf("%w (%v): a function without a context must only compute", errNoReturn, s.pureTime))
}

var errNoReturn = errors.New("the function does not return")

// Turn applies the event Turn: the saga may now be the first in the queues of its entities.
func (s *saga) Turn() {
	if s.Def.Plan.Locks() {
		s.Feed(plan.Event{What: plan.Turn})
	}
}

// Due applies the event Tick if the saga waits for a time that has passed.
func (s *saga) Due() {
	if next := s.State.Next(); !next.IsZero() && !next.After(s.clock.Now()) {
		s.Feed(plan.Event{What: plan.Tick})
	}
}

// Move returns the write of the new state. It returns owned=false if another session has the saga. Then the
// write releases the saga, and its owner must read it again.
func (s *saga) Move(session string) (m store.SagaUpdate, owned bool, err error) {
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

// GivenBack returns m, changed so that the write releases the saga.
func (s *saga) GivenBack(m store.SagaUpdate) store.SagaUpdate {
	m = sagarow.Released(m, s.State, s.clock.Now(), len(s.Pending()) > 0)
	m.Lease = 0
	return m
}

// Effect returns m together with the messages to store.
func (s *saga) Effect(m *store.SagaUpdate) store.Effect { return store.Effect{Saga: m, Rows: s.rows} }

// Wrote records that m is stored. It returns the previous state, and the notices to log: alarms, and the end
// of the saga.
func (s *saga) Wrote(m *store.SagaUpdate) (was plan.State, notices []plan.Action) {
	s.Row.Version, s.Row.State, s.Row.SagaStatus = m.Version+1, m.State, m.SagaStatus
	if m.Hash != "" {
		s.Row.Hash = m.Hash
	}
	was, notices = s.was, s.notices
	s.was, s.dirty, s.hash, s.rows, s.family, s.prepared, s.notices = s.State, false, "", nil, nil, nil, nil
	return was, notices
}
