package saga

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/internal/saga/engine"
	"github.com/skald-go/skald/internal/saga/plan"
)

// A Request is a Call's request to a service outside. Do, LookUp, Cancel and Memory are those of call.Call,
// so that a provider is written once for sagas and for inboxes. The key of a request is Run.CallKey.
type Request[TTx, In, Req, Out any] struct {
	// At is the provider: its timeout, its circuit breaker and its limit hold for all requests that name it.
	At *call.Provider
	// Intent says what to request. It reads in tx; what it writes there is rolled back.
	Intent func(ctx context.Context, tx TTx, r Run[In]) (Req, error)
	// Do, LookUp, Cancel, Memory: see call.Call. What became of a request without an answer is looked up, and
	// requested again under the same key, until it is known: an undo never sees an unknown.
	Do     func(ctx context.Context, req Req, key string) (Out, error)
	LookUp func(ctx context.Context, req Req, key string) (out Out, found bool, err error)
	Cancel func(ctx context.Context, req Req, key string) (out Out, done bool, err error)
	Memory time.Duration
	// Settle writes in tx what follows from the answer. Nil: nothing. Where it rejects an answer that is no
	// refusal, the step is done, and the saga turns back and undoes it.
	Settle func(ctx context.Context, tx TTx, r Run[In], o call.Outcome[Out]) error
}

// A Refund is a Request that undoes another one, which had put out Out.
type Refund[TTx, In, Out, Req, Ans any] struct {
	At *call.Provider
	// the key of what is undone is Run.ForwardKey
	Intent func(ctx context.Context, tx TTx, r Run[In], out Out) (Req, error)
	Do     func(ctx context.Context, req Req, key string) (Ans, error)
	LookUp func(ctx context.Context, req Req, key string) (ans Ans, found bool, err error)
	Cancel func(ctx context.Context, req Req, key string) (ans Ans, done bool, err error)
	Memory time.Duration
	Settle func(ctx context.Context, tx TTx, r Run[In], o call.Outcome[Ans]) error
}

// CallUndo undoes a Call: a Refund, or a Local.
type CallUndo[TTx, In, Out any] interface {
	undoes(o *engine.Outside[TTx], in In, out Out) error
}

// Local undoes a Call in a transaction of your own, without asking anybody.
type Local[TTx, In, Out any] func(ctx context.Context, tx TTx, r Run[In], out Out) error

func (l Local[TTx, In, Out]) undoes(o *engine.Outside[TTx], _ In, _ Out) error {
	if l == nil {
		return errors.New("its undo is a nil function: leave the undo out with nil")
	}
	o.Local = undoing[TTx, In, Out](l)
	return nil
}

func (u Refund[TTx, In, Out, Req, Ans]) undoes(o *engine.Outside[TTx], _ In, _ Out) error {
	r := Request[TTx, In, Req, Ans]{At: u.At, Do: u.Do, LookUp: u.LookUp, Cancel: u.Cancel, Memory: u.Memory,
		Settle: u.Settle}
	if u.Intent != nil {
		r.Intent = func(ctx context.Context, tx TTx, r Run[In]) (Req, error) {
			var none Req
			run, _ := r.facts.State.Run(r.facts.Step, r.facts.Occurrence)
			out, err := decodeOutput[Out](r.facts, run.Output)
			if err != nil {
				return none, err
			}
			return u.Intent(ctx, tx, r, out)
		}
	}
	if err := r.valid(); err != nil {
		return fmt.Errorf("its undo: %w", err)
	}
	bound := r.bound()
	o.Undo = &bound
	return nil
}

// Call is a step that asks somebody outside. The request is stored before it is made, and made outside of any
// transaction; its answer is stored together with what Settle writes. Undo is a Refund, a Local, or nil: see
// NoEffect. A refusal (skald.Reject of Do or LookUp) turns the saga back.
func Call[TTx, In, Req, Out any](name string, c Request[TTx, In, Req, Out], undo CallUndo[TTx, In, Out],
	opts ...Option) *Step[In, Out] {
	o := &engine.Outside[TTx]{Call: c.bound()}
	var err error
	if undo != nil {
		var in In
		var out Out
		err = undo.undoes(o, in, out)
	}
	s := newStep[In, Out](name, plan.Call, engine.StepBody{Tx: o}, undo != nil, opts)
	for _, fault := range []error{c.valid(), err} {
		if fault != nil {
			s.spec.fault("%w", fault)
		}
	}
	return s
}

func (c Request[TTx, In, Req, Out]) valid() error {
	if c.At == nil || c.Intent == nil || c.Do == nil {
		return errors.New("a Request needs At, Intent and Do")
	}
	return nil
}

// bound is the request without its types. The message of the call is none: the facts come with the context.
func (c Request[TTx, In, Req, Out]) bound() engine.Request[TTx] {
	made := call.Call[TTx, *engine.Facts, Req, Out]{At: c.At, Do: c.Do, LookUp: c.LookUp, Cancel: c.Cancel,
		Memory: c.Memory,
		Intent: func(ctx context.Context, tx TTx,
			m skald.Received[*engine.Facts]) (req Req, key string, err error) {
			r, err := runOf[In](m.Value)
			if err != nil {
				return req, "", err
			}
			req, err = c.Intent(ctx, tx, r)
			return req, m.Value.CallKey(), m.Value.Fault(err)
		},
		Settle: func(ctx context.Context, tx TTx, m skald.Received[*engine.Facts],
			o call.Outcome[Out]) error {
			if c.Settle == nil {
				return nil
			}
			r, err := runOf[In](m.Value)
			if err != nil {
				return err
			}
			return m.Value.Fault(c.Settle(ctx, tx, r, o))
		},
	}
	return engine.Request[TTx]{
		Bind: func(by call.By) call.Bound[TTx] { return call.Bind(made, by, factsOf) },
		Read: func(outcome string) (json.RawMessage, bool, string, error) {
			var o call.Outcome[json.RawMessage]
			if err := json.Unmarshal([]byte(outcome), &o); err != nil {
				return nil, false, "", fmt.Errorf("read the outcome of the call: %w", err)
			}
			return o.Value, o.Refused, o.Reason, nil
		},
	}
}

func factsOf(ctx context.Context, m skald.Message) (skald.Received[*engine.Facts], error) {
	f, ok := engine.FactsOf(ctx)
	if !ok {
		return skald.Received[*engine.Facts]{},
			skald.Permanent(errors.New("saga: the context of the call was replaced"))
	}
	return skald.Received[*engine.Facts]{Message: m, Value: f}, nil
}
