package saga

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/engine"
	"github.com/skald-go/skald/internal/saga/plan"
)

// NoSagaError is the error for a key that has no saga of the definition. The saga was not started, its start
// is not committed, or it ended and was deleted.
type NoSagaError = engine.NoSagaError

// End is the result of a saga that has ended.
type End struct {
	ID     string
	Done   bool   // true: each step is done or skipped; false: each step that took effect is undone
	Why    string // "rejected", "failed", "deadline", "cancel" or "recall" if the saga turned back, or ""
	Step   string // the step because of which the saga turned back, or ""
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

// Results of signals and cancellations. A cancellation returns Taken, Duplicate, TooLate or NothingToUndo.
const (
	Taken      SignalResult = "taken"
	Early      SignalResult = "early"  // the step has not begun, so the signal is stored for it
	Duplicate  SignalResult = "repeat" // the signal is ignored, because an earlier one was taken
	NotWaiting SignalResult = "late"   // the step no longer waits
	Full       SignalResult = "full"   // the step has not begun, and 64 signals are stored already

	// TooLate means that the saga cannot turn back: its pivot is done, or it has ended.
	TooLate SignalResult = "too late"
	// NothingToUndo means that no step with an undo was done, so the saga ends without an undo. The caller
	// must clean up the rows that were written in the transaction of Start.
	NothingToUndo SignalResult = "unbegun"
)

func (s Signal[T]) with(v T) (engine.Signal, error) {
	var m skald.Message
	if err := (skald.JSON{}).Encode(context.Background(), &m, v); err != nil {
		return engine.Signal{}, skald.Permanent(fmt.Errorf("encode the signal %s: %w", s.Name, err))
	}
	return engine.Signal{Name: s.Name, Occurrence: s.occurrence, Data: m.Data}, nil
}
