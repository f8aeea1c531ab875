package operate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/flow"
	"github.com/skald-go/skald/store"
)

// Values of SagaProgress.Style.
const (
	Choreographed = "choreographed" // a tracker follows it
	Orchestrated  = "orchestrated"  // an engine runs it
)

// SagaProgress is the state of one saga, choreographed or orchestrated. The JSON field names are stable.
type SagaProgress struct {
	Style string `json:"style"` // Choreographed or Orchestrated
	Name  string `json:"name"`  // the flow, or the definition
	Key   string `json:"key"`
	State string `json:"state"`         // running, compensating, done, compensated
	Why   string `json:"why,omitempty"` // why it turned back

	Stuck  bool `json:"stuck,omitempty"` // an operator has to decide
	Paused bool `json:"paused,omitempty"`
	// Overdue is true if the next event of a choreographed saga is late. For an orchestrated saga it is true
	// if the deadline passed after the pivot, so that the saga goes on.
	Overdue bool `json:"overdue"`
	// Forward reports that the pivot of an orchestrated saga is done, so it cannot turn back.
	Forward bool `json:"forward,omitempty"`

	Steps    []StepProgress `json:"steps"`
	Waiting  []Wait         `json:"waiting,omitempty"` // the next events, replies or signals
	Retrying *Retrying      `json:"retrying,omitempty"`
	// Missing lists events that have not arrived, although events that they caused have.
	Missing   []string `json:"missing,omitempty"`
	Remaining []string `json:"remaining,omitempty"` // the steps until the end, or until all steps are undone
	// Undo lists the steps to undo if the saga turns back. If it goes forward, a failure would undo these
	// steps.
	Undo  []string `json:"would_undo,omitempty"`
	Stays []string `json:"cannot_undo,omitempty"` // steps that took effect, and that nothing undoes
	// RequestedUndos lists undos that an operator requested, and that no service has reported yet.
	RequestedUndos []RequestedUndo `json:"asked,omitempty"`
	// Drift lists events that the flow does not allow, or the reasons why no engine runs the saga.
	Drift    []string `json:"drift,omitempty"`
	Commands []string `json:"commands,omitempty"` // make an engine continue a stuck or paused saga

	Due     *time.Time `json:"due,omitempty"` // the deadline, or the time at which the first wait is overdue
	Started time.Time  `json:"started_at"`    // for a choreographed saga, the time of its first event
	Changed time.Time  `json:"changed_at"`
	Ended   *time.Time `json:"ended_at,omitempty"` // only for an orchestrated saga
	Trace   string     `json:"trace,omitempty"`    // the ID of the trace in which the saga began

	ID      string   `json:"-"` // only for an orchestrated saga: other services record its steps under this ID
	Keys    [][]byte `json:"-"` // the keys of its messages
	Refused []string `json:"-"` // only for a choreographed saga: the reasons why Compensate undoes nothing
}

// Values of StepProgress.Outcome.
const (
	StepRunning = "running" // it is in progress, or waits for an answer
	StepNext    = "next"    // it is next, but no running build can run it
	StepDone    = "done"    // it took effect, or the event arrived
	StepFailed  = "failed"  // it ended without an effect, or made the saga fail
	StepSkipped = "skipped" // an operator or its condition skipped it
	StepDropped = "dropped" // the saga turned back before it took effect
	StepUndoing = "undoing" // its undo is in progress
	StepUndone  = "undone"
)

// StepProgress is a step of an orchestrated saga, or the events of one kind in a choreographed one.
type StepProgress struct {
	Name    string     `json:"name"` // the name with its occurrence, or the type of an event
	Topic   string     `json:"topic,omitempty"`
	Outcome string     `json:"outcome"`      // StepRunning or another of the constants above
	At      *time.Time `json:"at,omitempty"` // the time of the outcome, or the time in the event

	Stuck    bool   `json:"stuck,omitempty"`
	Attempts int    `json:"attempts,omitempty"` // failed attempts of the step or of its undo
	Error    string `json:"error,omitempty"`
	// Failures has the last failed attempts of the step and of its undo, oldest first. Only steps of
	// orchestrated sagas have failures.
	Failures []StepFailure `json:"failures,omitempty"`

	Next     *time.Time `json:"next,omitempty"`     // the time of the next attempt
	Messages []flow.ID  `json:"messages,omitempty"` // at most 8
	More     bool       `json:"more,omitempty"`     // there were more messages
}

// Values of Wait.Kind.
const (
	WaitEvent  = "event"
	WaitReply  = "reply" // a reply to a command, or to the undo of a command
	WaitSignal = "signal"
	WaitTime   = "time"
	WaitChild  = "child" // the end of a child saga
	// WaitEntities means that other sagas hold the entities, or come earlier in the line for them.
	WaitEntities = "entities"
)

// Wait is an event, a reply, a signal, a time, a child or an entity that a step waits for.
type Wait struct {
	Kind  string     `json:"what"`           // one of the constants above
	After string     `json:"after"`          // the last event, or the waiting step
	For   []string   `json:"for,omitempty"`  // one of these events, the signal, or all of these entities
	More  int        `json:"more,omitempty"` // the number of entities that For leaves out
	Since *time.Time `json:"since,omitempty"`
	Due   *time.Time `json:"due,omitempty"`
}

// ForText describes For in words.
func (w *Wait) ForText() string {
	switch {
	case w.More > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(w.For, ", "), w.More)
	case w.Kind == WaitEntities:
		return strings.Join(w.For, ", ")
	}
	return strings.Join(w.For, " or ")
}

// Retrying is the step that fails repeatedly, or that is stuck after failures. For a failing message instead
// of a step, see BlockingMessage.
type Retrying struct {
	Step    string     `json:"step"`
	Attempt int        `json:"attempt"` // the number of the next attempt
	Error   string     `json:"error"`   // the error of the last attempt
	Since   *time.Time `json:"since,omitempty"`
	Next    *time.Time `json:"next,omitempty"` // nil if an attempt is in progress, or the step is stuck
}

// RequestedUndo is a step with an undo that an operator requested.
type RequestedUndo struct {
	Step string     `json:"step"`
	For  []string   `json:"for"` // the events that report the undo
	At   time.Time  `json:"at"`
	Due  *time.Time `json:"due,omitempty"`
}

// ReadSagaProgress returns the state of the choreographed and orchestrated sagas with a key. The argument
// dbFlag is the flag that selects the database: see BlockingMessages. An unknown key is no error.
func ReadSagaProgress(ctx context.Context, db store.Lister, key, dbFlag string) ([]SagaProgress, error) {
	if key == "" {
		return nil, nil
	}
	out, err := TrackedSagas(ctx, db, store.TrackedQuery{Key: key})
	if err != nil {
		return nil, err
	}
	run, err := orchestrated(ctx, db, key, dbFlag)
	return append(out, run...), err
}

// TrackedSagas lists the choreographed sagas that trackers have stored, ordered by key and flow.
func TrackedSagas(ctx context.Context, db store.Lister, q store.TrackedQuery) ([]SagaProgress, error) {
	list, err := flow.List(ctx, db, q)
	if err != nil {
		return nil, err
	}
	out := make([]SagaProgress, len(list))
	for i := range list {
		out[i] = choreographed(&list[i])
	}
	return out, nil
}

func choreographed(s *flow.SagaState) SagaProgress {
	out := SagaProgress{Style: Choreographed, Name: s.Flow, Key: s.Key, State: s.State, Overdue: s.Overdue,
		Missing:   types(s.Missing),
		Remaining: types(s.Remaining), Undo: types(s.Undo), Stays: types(s.Stays), Drift: s.Drift, Due: s.Due,
		Started: s.At, Changed: s.Changed,
		Trace: s.Trace, Keys: s.Keys, Refused: s.Refused, Steps: []StepProgress{}}
	for i := range s.Steps {
		step := &s.Steps[i]
		one := StepProgress{Name: step.Type, Topic: step.Topic, Outcome: StepDone, At: &step.At,
			Messages: step.IDs, More: step.More}
		switch {
		case slices.Contains(s.Undone, step.Name):
			one.Outcome = StepUndone
		case slices.Contains(s.Failed, step.Name):
			one.Outcome = StepFailed
		}
		out.Steps = append(out.Steps, one)
	}
	for _, w := range s.Waiting {
		out.Waiting = append(out.Waiting, Wait{Kind: WaitEvent, After: w.After.Type, For: types(w.For),
			Since: &w.Since, Due: w.Due})
	}
	for _, a := range s.Asked {
		out.RequestedUndos = append(out.RequestedUndos, RequestedUndo{Step: a.Step.Type, For: types(a.For),
			At: a.At, Due: a.Due})
	}
	return out
}

func types(names []flow.Name) (out []string) {
	for _, n := range names {
		out = append(out, n.Type)
	}
	return out
}
