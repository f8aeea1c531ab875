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

// Styles of a saga.
const (
	Choreographed = "choreographed" // a tracker follows it
	Orchestrated  = "orchestrated"  // an engine runs it
)

// SagaProgress is the state of one saga of either style. Its names in JSON are stable.
type SagaProgress struct {
	Style string `json:"style"` // Choreographed or Orchestrated
	Name  string `json:"name"`  // the flow, or the definition
	Key   string `json:"key"`
	State string `json:"state"`         // running, compensating, done, compensated
	Why   string `json:"why,omitempty"` // why it turned back

	Stuck  bool `json:"stuck,omitempty"` // an operator has to decide
	Paused bool `json:"paused,omitempty"`
	// Overdue of a choreographed saga means that the event that it waits for is due. Of an orchestrated
	// saga it means that its deadline passed, and the saga goes on.
	Overdue bool `json:"overdue"`
	// Forward reports that the pivot of an orchestrated saga is done, so it cannot turn back.
	Forward bool `json:"forward,omitempty"`

	Steps    []StepProgress `json:"steps"`
	Waiting  []Wait         `json:"waiting,omitempty"` // the next events, replies or signals
	Retrying *Retrying      `json:"retrying,omitempty"`
	// Missing lists events that have not arrived, although events that they caused have.
	Missing   []string `json:"missing,omitempty"`
	Remaining []string `json:"remaining,omitempty"` // until the end, or until all is undone
	// Undo lists steps that took effect and that a failure would undo. If the saga turns back, these are
	// the steps to undo.
	Undo  []string `json:"would_undo,omitempty"`
	Stays []string `json:"cannot_undo,omitempty"` // steps that took effect, and that nothing undoes
	// RequestedUndos lists undos that an operator requested, and that no service has reported yet.
	RequestedUndos []RequestedUndo `json:"asked,omitempty"`
	// Drift lists observations that contradict the flow, or that no engine can handle.
	Drift    []string `json:"drift,omitempty"`
	Commands []string `json:"commands,omitempty"` // that free it, if it is stuck or paused

	Due     *time.Time `json:"due,omitempty"` // its deadline, or the earliest due time of its waits
	Started time.Time  `json:"started_at"`    // of a choreographed saga: its first event
	Changed time.Time  `json:"changed_at"`
	Ended   *time.Time `json:"ended_at,omitempty"` // of an orchestrated saga
	Trace   string     `json:"trace,omitempty"`    // the id of the trace in which it began

	ID      string   `json:"-"` // of an orchestrated saga: participants record their steps under it
	Keys    [][]byte `json:"-"` // of its messages
	Refused []string `json:"-"` // of a choreographed saga: why Compensate undoes nothing
}

// Outcomes of a StepProgress.
const (
	StepRunning = "running" // it is in progress, or waits for an answer
	StepNext    = "next"    // it is next, and no running build takes it
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
	Outcome string     `json:"outcome"`      // one of the Outcomes above
	At      *time.Time `json:"at,omitempty"` // the time of the outcome; of an event, when it was written

	Stuck    bool   `json:"stuck,omitempty"`
	Attempts int    `json:"attempts,omitempty"` // failed attempts of the step or of its undo
	Error    string `json:"error,omitempty"`
	// Failures are the last failed attempts of an orchestrated saga's step and of its undo, oldest first.
	Failures []StepFailure `json:"failures,omitempty"`

	Next     *time.Time `json:"next,omitempty"`     // the next attempt
	Messages []flow.ID  `json:"messages,omitempty"` // at most 8
	More     bool       `json:"more,omitempty"`     // there were more messages
}

// Kinds of a Wait.
const (
	WaitEvent  = "event"
	WaitReply  = "reply" // to a command, or to the undo of one
	WaitSignal = "signal"
	WaitTime   = "time"
	WaitChild  = "child" // a saga that is a step of this one
	// WaitEntities are entities that other sagas hold or wait for.
	WaitEntities = "entities"
)

// Wait is an event, a reply, a signal, a time, a child or an entity that a step waits for.
type Wait struct {
	Kind  string     `json:"what"`           // one of the constants above
	After string     `json:"after"`          // the last event, or the waiting step
	For   []string   `json:"for,omitempty"`  // any of these events, the signal, or all of these entities
	More  int        `json:"more,omitempty"` // the number of further entities
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

// Retrying is the step that fails repeatedly, or is stuck after failures. A message with such a fault is a
// Holder.
type Retrying struct {
	Step    string     `json:"step"`
	Attempt int        `json:"attempt"` // the number of the next attempt
	Error   string     `json:"error"`   // of the last attempt
	Since   *time.Time `json:"since,omitempty"`
	Next    *time.Time `json:"next,omitempty"` // nil if it is in progress or stuck
}

// RequestedUndo is a step with an undo that an operator requested.
type RequestedUndo struct {
	Step string     `json:"step"`
	For  []string   `json:"for"` // the events that report the undo
	At   time.Time  `json:"at"`
	Due  *time.Time `json:"due,omitempty"`
}

// ReadSagaProgress returns the state of the sagas with a key, of both styles. at is as for BlockingMessages.
// It returns no error if there is none.
func ReadSagaProgress(ctx context.Context, db store.Lister, key, at string) ([]SagaProgress, error) {
	if key == "" {
		return nil, nil
	}
	out, err := TrackedSagas(ctx, db, store.TrackedQuery{Key: key})
	if err != nil {
		return nil, err
	}
	run, err := orchestrated(ctx, db, key, at)
	return append(out, run...), err
}

// TrackedSagas lists choreographed sagas, as trackers store them, by key and flow.
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
