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

// A SagaStanding is how one saga stands, of either style: its names in JSON are stable.
type SagaStanding struct {
	Style string `json:"style"` // Choreographed or Orchestrated
	Name  string `json:"name"`  // of the flow, or of the definition
	Key   string `json:"key"`
	State string `json:"state"`         // running, compensating, done, compensated
	Why   string `json:"why,omitempty"` // it turned back

	Stuck  bool `json:"stuck,omitempty"` // an operator has to decide
	Paused bool `json:"paused,omitempty"`
	// choreographed: what it waits for is due; orchestrated: its deadline passed, and it goes on
	Overdue bool `json:"overdue"`
	// orchestrated: it goes forward, and cannot turn back any more, since its pivot is done
	Forward bool `json:"forward,omitempty"`

	Steps    []StandingStep `json:"steps"`
	Waiting  []Wait         `json:"waiting,omitempty"` // what has to come next
	Retrying *Retrying      `json:"retrying,omitempty"`
	// events: causes of what came that did not come yet
	Missing   []string `json:"missing,omitempty"`
	Remaining []string `json:"remaining,omitempty"` // until the end, or until all is undone
	// steps that took effect, and that a failure undoes; of one that turns back, that are to be undone
	Undo  []string `json:"would_undo,omitempty"`
	Stays []string `json:"cannot_undo,omitempty"` // steps that took effect, and that nothing undoes
	// undos that an operator asked for, and that nobody reported yet
	Asked []Asked `json:"asked,omitempty"`
	// what the flow, or an engine, does not know or allow
	Drift    []string `json:"drift,omitempty"`
	Commands []string `json:"commands,omitempty"` // that free it, if it is stuck or paused

	Due     *time.Time `json:"due,omitempty"` // of its deadline, or of the wait that is due first
	Started time.Time  `json:"started_at"`    // choreographed: first heard of
	Changed time.Time  `json:"changed_at"`
	Ended   *time.Time `json:"ended_at,omitempty"` // of an orchestrated one
	Trace   string     `json:"trace,omitempty"`    // the id of the trace in which it began

	Keys    [][]byte `json:"-"` // of its messages
	Refused []string `json:"-"` // choreographed: why Compensate undoes nothing
}

// Outcomes of a StandingStep.
const (
	StepRunning  = "running" // it is at work, or waits for an answer
	StepNext     = "next"    // its turn has come, and no build runs that takes it
	StepDone     = "done"    // it took effect, or: the event came
	StepFailed   = "failed"  // it ended without an effect, or: the saga failed by it
	StepSkipped  = "skipped" // it counts as passed
	StepDropped  = "dropped" // the saga turned back before it took effect
	StepUndoing  = "undoing" // its undo is at work
	StepIsUndone = "undone"
)

// A StandingStep is a step of an engine's saga, or what came of one kind of event.
type StandingStep struct {
	Name    string     `json:"name"` // with its occurrence; of an event its type
	Topic   string     `json:"topic,omitempty"`
	Outcome string     `json:"outcome"`      // one of the Outcomes above
	At      *time.Time `json:"at,omitempty"` // when it came to that; of an event, when it was written

	Stuck    bool       `json:"stuck,omitempty"`
	Attempts int        `json:"attempts,omitempty"` // that failed, of the step or of its undo
	Error    string     `json:"error,omitempty"`
	Next     *time.Time `json:"next,omitempty"`     // when it is tried again
	Messages []flow.ID  `json:"messages,omitempty"` // at most 8
	More     bool       `json:"more,omitempty"`     // there were others
}

// What a Wait waits for.
const (
	WaitEvent  = "event"
	WaitReply  = "reply" // to a command, or to the undo of one
	WaitSignal = "signal"
	WaitTime   = "time"
	WaitChild  = "child" // a saga that is a step of this one
	// entities that other sagas hold, or stand in line for
	WaitEntities = "entities"
)

// A Wait is something that has to come.
type Wait struct {
	What  string     `json:"what"`           // one of the words above
	After string     `json:"after"`          // the event, or the step that waits
	For   []string   `json:"for,omitempty"`  // one of these events; the signal; all of these entities
	More  int        `json:"more,omitempty"` // entities beyond those
	Since *time.Time `json:"since,omitempty"`
	Due   *time.Time `json:"due,omitempty"`
}

// ForText is what it waits for.
func (w *Wait) ForText() string {
	switch {
	case w.More > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(w.For, ", "), w.More)
	case w.What == WaitEntities:
		return strings.Join(w.For, ", ")
	}
	return strings.Join(w.For, " or ")
}

// A Retrying is the step that fails again and again, or is stuck by that. The same of a message is a Holder.
type Retrying struct {
	Step    string     `json:"step"`
	Attempt int        `json:"attempt"` // the next one
	Error   string     `json:"error"`   // of the last one
	Since   *time.Time `json:"since,omitempty"`
	Next    *time.Time `json:"next,omitempty"` // none: it is at work, or stuck
}

// An Asked is a step of which an operator asked for the undo.
type Asked struct {
	Step string     `json:"step"`
	For  []string   `json:"for"` // the event that tells that it is done
	At   time.Time  `json:"at"`
	Due  *time.Time `json:"due,omitempty"`
}

// SagaStandings tells how the sagas of a key stand, of both styles. At is as for Holders. None is no error.
func SagaStandings(ctx context.Context, db store.Lister, key, at string) ([]SagaStanding, error) {
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

// TrackedSagas lists choreographed sagas as trackers keep them, by key and flow.
func TrackedSagas(ctx context.Context, db store.Lister, q store.TrackedQuery) ([]SagaStanding, error) {
	list, err := flow.List(ctx, db, q)
	if err != nil {
		return nil, err
	}
	out := make([]SagaStanding, len(list))
	for i := range list {
		out[i] = choreographed(&list[i])
	}
	return out, nil
}

func choreographed(s *flow.Standing) SagaStanding {
	out := SagaStanding{Style: Choreographed, Name: s.Flow, Key: s.Key, State: s.State, Overdue: s.Overdue,
		Missing:   types(s.Missing),
		Remaining: types(s.Remaining), Undo: types(s.Undo), Stays: types(s.Stays), Drift: s.Drift, Due: s.Due,
		Started: s.At, Changed: s.Changed,
		Trace: s.Trace, Keys: s.Keys, Refused: s.Refused, Steps: []StandingStep{}}
	for i := range s.Steps {
		step := &s.Steps[i]
		one := StandingStep{Name: step.Type, Topic: step.Topic, Outcome: StepDone, At: &step.At,
			Messages: step.IDs, More: step.More}
		switch {
		case slices.Contains(s.Undone, step.Name):
			one.Outcome = StepIsUndone
		case slices.Contains(s.Failed, step.Name):
			one.Outcome = StepFailed
		}
		out.Steps = append(out.Steps, one)
	}
	for _, w := range s.Waiting {
		out.Waiting = append(out.Waiting, Wait{What: WaitEvent, After: w.After.Type, For: types(w.For),
			Since: &w.Since, Due: w.Due})
	}
	for _, a := range s.Asked {
		out.Asked = append(out.Asked, Asked{Step: a.Step.Type, For: types(a.For), At: a.At, Due: a.Due})
	}
	return out
}

func types(names []flow.Name) (out []string) {
	for _, n := range names {
		out = append(out, n.Type)
	}
	return out
}
