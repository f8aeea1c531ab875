package operate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/store"
)

// SagaStep is the state of a step of a saga in one consumer. The JSON field names are stable. In JSON, Result
// and Outcome are base64.
type SagaStep struct {
	Consumer   string     `json:"consumer"`
	Saga       string     `json:"saga"`
	Step       string     `json:"step"`
	Occurrence string     `json:"occurrence"`
	State      string     `json:"state"`            // one of StepStates
	Source     string     `json:"source,omitempty"` // of the message that did the step, or waits to do it
	ID         string     `json:"id,omitempty"`
	BySource   string     `json:"by_source,omitempty"` // of the message that undid or barred the step
	ByID       string     `json:"by_id,omitempty"`
	Code       int32      `json:"code,omitempty"`
	Result     []byte     `json:"result,omitempty"`
	OutsideKey string     `json:"outside_key,omitempty"`
	Outcome    []byte     `json:"outcome,omitempty"`
	Begun      *time.Time `json:"begun,omitempty"`
	At         time.Time  `json:"at"`
	ChangedAt  time.Time  `json:"changed_at"`
}

// StepStates returns the values of SagaStep.State.
func StepStates() []string {
	return []string{"done", "calling", "parked", "dead", "dropped", "rejected", "barred", "undone"}
}

// StepSelection selects steps. Zero fields select all.
type StepSelection struct {
	Consumer, Saga string
	// Consumers and Sagas select the steps of several sagas in several consumers. Set both or neither.
	Consumers, Sagas []string
	State            string // one of StepStates
	Limit            int    // default 1,000
}

// Steps lists the selected steps, ordered by consumer, saga, step and occurrence.
func Steps(ctx context.Context, db store.Lister, s StepSelection) ([]SagaStep, error) {
	q := store.StepQuery{Consumer: s.Consumer, Saga: s.Saga, Consumers: s.Consumers, Sagas: s.Sagas,
		Limit: s.Limit}
	switch {
	case s.State == "":
	case !slices.Contains(StepStates(), s.State):
		return nil, &UsageError{Reason: fmt.Sprintf("a step's state is one of %s, not %q",
			strings.Join(StepStates(), ", "), s.State)}
	default:
		q.State, q.Dropped = stepState(s.State)
	}
	list, err := store.ListSteps(ctx, db, q)
	if err != nil {
		return nil, err
	}
	out := make([]SagaStep, len(list))
	for i := range list {
		out[i] = sagaStep(&list[i])
	}
	return out, nil
}

// stepState converts one of StepStates to a store.StepState. A dropped step is stored as dead.
func stepState(word string) (state store.StepState, dropped bool) {
	if word == "dropped" {
		return store.StepDead, true
	}
	for state = store.StepDone; state.String() != word; {
		state++
	}
	return state, false
}

func sagaStep(r *store.StepRecord) SagaStep {
	out := SagaStep{Consumer: r.Consumer, Saga: r.Saga, Step: r.Name, Occurrence: r.Occurrence,
		State: r.State.String(), Source: r.Source, ID: r.ID,
		BySource: r.By.Source, ByID: r.By.ID, Code: r.Code, OutsideKey: r.OutsideKey,
		Begun: timeOrNil(r.Begun), At: r.At, ChangedAt: r.Changed}
	if r.Dropped {
		out.State = "dropped"
	}
	if r.Result != "" {
		out.Result = []byte(r.Result)
	}
	if r.Outcome != "" {
		out.Outcome = []byte(r.Outcome)
	}
	return out
}
