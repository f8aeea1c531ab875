package saga

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/engine"
	"github.com/skald-go/skald/internal/saga/plan"
)

// A NoSagaError says that there is no saga of a definition and a key.
type NoSagaError = engine.NoSagaError

// An End is how a saga has ended.
type End struct {
	ID     string
	Done   bool   // each step is done or skipped; else what was done is undone
	Why    string // it turned back: "rejected", "failed", "deadline", "cancel", "recall"
	Step   string // at which, if it was one
	Reason string

	state plan.State
}

// Output decodes what a step has put out into a pointer. False: it put nothing out.
func (e End) Output(step, occurrence string, out any) (bool, error) {
	r, ok := e.state.Run(step, occurrence)
	if !ok || r.Output == nil {
		return false, nil
	}
	return true, json.Unmarshal(r.Output, out)
}

// Await waits until a saga has ended. It returns at once where this engine ends the saga, and up to a second
// later where another one does. Errors: *NoSagaError where there is no saga of this key; that of ctx; that of
// the database, also where it does not answer within 15 s.
func (e *Engine[TTx]) Await(ctx context.Context, d Defined, key string) (End, error) {
	s, st, err := e.core.Await(ctx, d.Name(), key)
	if err != nil {
		return End{}, err
	}
	end := End{ID: s.ID, Done: st.Status == plan.Done, state: st}
	if c := st.Cause; c != nil {
		end.Why, end.Step, end.Reason = string(c.Why), c.Step, c.Reason
	}
	return end, nil
}

// For is the signal for one occurrence of a Wait with Each.
func (s Signal[T]) For(occurrence string) Signal[T] {
	s.occurrence = occurrence
	return s
}

// Received says what a signal came to.
type Received string

// What a signal came to.
const (
	Taken Received = "taken"
	Early Received = "early"  // its step has not begun: it is kept for it
	Again Received = "repeat" // there was one already, and the first one counts
	Late  Received = "late"   // the saga went another way
	Full  Received = "full"   // its step has not begun, and too many are kept already
)

// Send sends a signal to a saga, in a transaction of its own. *NoSagaError: there is none of this key.
func Send[TTx, T any](ctx context.Context, e *Engine[TTx], d Defined, key string, s Signal[T],
	v T) (Received, error) {
	one, err := s.with(v)
	if err != nil {
		return "", err
	}
	out, err := e.core.SignalAlone(ctx, d.Body(), key, one)
	return received(out, err)
}

// SendIn is Send in a transaction of the caller's, such as an inbox's handler.
func SendIn[TTx, T any](ctx context.Context, e *Engine[TTx], tx TTx, d Defined, key string, s Signal[T],
	v T) (Received, error) {
	one, err := s.with(v)
	if err != nil {
		return "", err
	}
	out, err := e.core.Signal(ctx, tx, d.Body(), key, one)
	return received(out, err)
}

func received(out plan.Outcome, err error) (Received, error) {
	if err != nil {
		return "", err
	}
	return Received(out), nil
}

func (s Signal[T]) with(v T) (engine.Signal, error) {
	var m skald.Message
	if err := (skald.JSON{}).Encode(context.Background(), &m, v); err != nil {
		return engine.Signal{}, skald.Permanent(fmt.Errorf("encode the signal %s: %w", s.Name, err))
	}
	return engine.Signal{Name: s.Name, Occurrence: s.occurrence, Data: m.Data}, nil
}
