package saga

import (
	"context"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/engine"
	"github.com/skald-go/skald/internal/saga/plan"
)

// Sagas starts, finds and cancels the sagas of one definition. It is safe for concurrent use.
type Sagas[TTx, In any] struct {
	engine     *Engine[TTx]
	definition *Definition[In]
}

// Bind returns the sagas of d on the engine e. The engine e need not run: an engine in another process may
// run the sagas.
func Bind[TTx, In any](e *Engine[TTx], d *Definition[In]) *Sagas[TTx, In] {
	return &Sagas[TTx, In]{e, d}
}

// Started is the result of Start.
type Started struct {
	ID  string // id of the saga
	New bool   // false if an earlier call started the saga, with the same input
}

// Start starts a saga with this input in tx, a transaction of the caller. If tx is rolled back, the saga is
// not started. A definition has one saga for each key. If the key has a saga with the same input, Start
// returns this saga. If its input differs, Start returns an *OtherError. An ended saga is deleted after
// Keep.Sagas, and its key can be used again.
func (s *Sagas[TTx, In]) Start(ctx context.Context, tx TTx, input In) (Started, error) {
	if err := s.definition.faults; err != nil {
		return Started{}, fmt.Errorf("start a saga: %w", err)
	}
	row, fresh, err := s.engine.core.Start(ctx, tx, s.definition.body, input)
	if err != nil {
		return Started{}, err
	}
	return Started{ID: row.ID, New: fresh}, nil
}

// StartAll is like Start for many inputs, in one statement. After an error the caller must roll tx back.
func (s *Sagas[TTx, In]) StartAll(ctx context.Context, tx TTx, ins []In) ([]Started, error) {
	if err := s.definition.faults; err != nil {
		return nil, fmt.Errorf("start sagas: %w", err)
	}
	all := make([]any, len(ins))
	for i, in := range ins {
		all[i] = in
	}
	rows, fresh, err := s.engine.core.StartAll(ctx, tx, s.definition.body, all)
	if err != nil {
		return nil, err
	}
	out := make([]Started, len(rows))
	for i := range rows {
		out[i] = Started{ID: rows[i].ID, New: fresh[i]}
	}
	return out, nil
}

// StartNow is like Start, but uses a transaction of the engine. The saga is committed when StartNow returns.
// Concurrent calls share a commit. After an error of the database or of ctx the saga may have started: call
// StartNow again with the same input.
func (s *Sagas[TTx, In]) StartNow(ctx context.Context, in In) (Started, error) {
	if err := s.definition.faults; err != nil {
		return Started{}, fmt.Errorf("start a saga: %w", err)
	}
	row, fresh, err := s.engine.core.StartNow(ctx, s.definition.body, in)
	if err != nil {
		return Started{}, err
	}
	return Started{ID: row.ID, New: fresh}, nil
}

// Cancel turns the saga of this key back, in a transaction of the caller. The engine first waits for the
// outcome of requests in progress. If the pivot is among these requests and took effect, the saga continues
// forward. Cancel returns a *NoSagaError if the key has no saga.
func (s *Sagas[TTx, In]) Cancel(ctx context.Context, tx TTx, key, reason string) (SignalResult, error) {
	out, nothing, err := s.engine.core.Cancel(ctx, tx, s.definition.body, key, reason)
	switch {
	case err != nil:
		return "", err
	case nothing:
		return NothingToUndo, nil
	}
	return SignalResult(out), nil
}

// Await waits until the saga of this key has ended. It returns immediately when this engine ends the saga,
// and up to a second later if another engine does. It returns a *NoSagaError if the key has no saga, the
// error of ctx, or the error of a database that does not answer within 15 s.
func (s *Sagas[TTx, In]) Await(ctx context.Context, key string) (End, error) {
	row, st, err := s.engine.core.Await(ctx, s.definition.body.Name, key)
	if err != nil {
		return End{}, err
	}
	end := End{ID: row.ID, Done: st.Status == plan.Done, state: st}
	end.Why, end.Step, end.Reason = causeOf(st)
	return end, nil
}

// Status is the state of a saga at the time of the call.
type Status struct {
	ID    string
	State State
	Stuck bool // the saga waits for an operator

	// Why, Step and Reason have the reason for which the saga turned back, as in End.
	Why, Step, Reason string
}

// State is the progress of a saga.
type State string

// The states of a saga.
const (
	Running      State = "running"
	Compensating State = "compensating" // the engine undoes the steps that took effect
	Completed    State = "done"         // each step is done or skipped
	Compensated  State = "compensated"  // each step that took effect is undone
)

// Status reads the saga of this key from the database. It returns a *NoSagaError if the key has no saga.
func (s *Sagas[TTx, In]) Status(ctx context.Context, key string) (Status, error) {
	row, st, err := s.engine.core.Find(ctx, s.definition.body.Name, key)
	if err != nil {
		return Status{}, err
	}
	out := Status{ID: row.ID, State: State(st.Status), Stuck: st.Stuck()}
	out.Why, out.Step, out.Reason = causeOf(st)
	return out, nil
}

func causeOf(st plan.State) (why, step, reason string) {
	if c := st.Cause; c != nil {
		return string(c.Why), c.Step, c.Reason
	}
	return "", "", ""
}

// Answer applies a message as a reply to the saga of this key, in the transaction of the caller's handler.
// Use it if the handler also does other work with the reply, or if the participants do not use Skald's sagas.
//
// If the message names a command as its cause, it answers this command. Otherwise it answers the command that
// waits for this type of message, if there is exactly one. Answer returns false if the message has no effect,
// because it is a duplicate, late or unexpected.
func (s *Sagas[TTx, In]) Answer(ctx context.Context, tx TTx, key string, m skald.Message) (bool, error) {
	out, err := s.engine.core.Answer(ctx, tx, s.definition.body, key, m)
	return out == plan.Taken, err
}

// Receiver receives signals for sagas. Sagas is a Receiver, and Sagas.In returns another one.
type Receiver interface {
	signal(ctx context.Context, key string, s engine.Signal) (plan.Outcome, error)
}

func (s *Sagas[TTx, In]) signal(ctx context.Context, key string, one engine.Signal) (plan.Outcome, error) {
	return s.engine.core.SignalAlone(ctx, s.definition.body, key, one)
}

// In returns a Receiver that applies signals in tx, a transaction of the caller.
func (s *Sagas[TTx, In]) In(tx TTx) Receiver { return within[TTx, In]{s, tx} }

type within[TTx, In any] struct {
	*Sagas[TTx, In]
	tx TTx
}

func (w within[TTx, In]) signal(ctx context.Context, key string, one engine.Signal) (plan.Outcome, error) {
	return w.engine.core.Signal(ctx, w.tx, w.definition.body, key, one)
}

// Send sends v to the saga of this key. The receiver is a Sagas, which applies the signal in its own
// transaction, or the result of Sagas.In. Send returns a *NoSagaError if the key has no saga.
func (s Signal[T]) Send(ctx context.Context, receiver Receiver, key string, v T) (SignalResult, error) {
	one, err := s.with(v)
	if err != nil {
		return "", err
	}
	out, err := receiver.signal(ctx, key, one)
	if err != nil {
		return "", err
	}
	return SignalResult(out), nil
}
