package saga

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/engine"
	"github.com/skald-go/skald/internal/saga/plan"
)

// NoSagaError is the error if a definition has no saga with a key.
type NoSagaError = engine.NoSagaError

// End is the result of a saga that has ended.
type End struct {
	ID     string
	Done   bool   // each step is done or skipped; else each step that took effect is undone
	Why    string // why it turned back: "rejected", "failed", "deadline", "cancel" or "recall"
	Step   string // the step that made it turn back, if any
	Reason string

	state plan.State
}

// Output decodes the output of a step into a pointer. It returns false if the step has no output.
func (e End) Output(step, occurrence string, out any) (bool, error) {
	r, ok := e.state.Run(step, occurrence)
	if !ok || r.Output == nil {
		return false, nil
	}
	return true, json.Unmarshal(r.Output, out)
}

// For returns the signal for one occurrence of a Wait with Each.
func (s Signal[T]) For(occurrence string) Signal[T] {
	s.occurrence = occurrence
	return s
}

// SignalResult is the result of a signal or a cancellation.
type SignalResult string

// The results of signals. A cancellation ends as Taken, Duplicate, TooLate or NothingToUndo.
const (
	Taken      SignalResult = "taken"
	Early      SignalResult = "early"  // its step has not begun: the signal is stored for the step
	Duplicate  SignalResult = "repeat" // ignored: an earlier signal was taken
	NotWaiting SignalResult = "late"   // the step no longer waits
	Full       SignalResult = "full"   // its step has not begun, and too many signals are stored already

	// TooLate means that the pivot or the saga is done.
	TooLate SignalResult = "too late"
	// NothingToUndo means that no step with an undo was done. The saga ends, without an undo. The caller
	// cleans up the rows that were written in the transaction of Start.
	NothingToUndo SignalResult = "unbegun"
)

func (s Signal[T]) with(v T) (engine.Signal, error) {
	var m skald.Message
	if err := (skald.JSON{}).Encode(context.Background(), &m, v); err != nil {
		return engine.Signal{}, skald.Permanent(fmt.Errorf("encode the signal %s: %w", s.Name, err))
	}
	return engine.Signal{Name: s.Name, Occurrence: s.occurrence, Data: m.Data}, nil
}
