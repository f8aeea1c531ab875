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

// Request is the request of a CallWith to another system. Do, LookUp, Cancel and Memory are as in call.Call,
// so sagas and inboxes can share these functions. The idempotency key of a request is Run.CallKey.
type Request[TTx, In, Req, Out any] struct {
	// At is the provider. All its requests share its timeout, circuit breaker and limit.
	At *call.Provider
	// Intent returns the request. It may read in tx; its writes are rolled back.
	Intent func(ctx context.Context, tx TTx, r Run[In]) (Req, error)
	// Do, LookUp, Cancel and Memory are as in call.Call. If a request gets no answer, the engine looks up the
	// outcome, and sends the request again with the same key, until the outcome is known. The step is not
	// undone before that.
	Do     func(ctx context.Context, req Req, key string) (Out, error)
	LookUp func(ctx context.Context, req Req, key string) (out Out, found bool, err error)
	Cancel func(ctx context.Context, req Req, key string) (out Out, done bool, err error)
	Memory time.Duration
	// Settle writes the consequences of the answer in tx. Nil writes nothing. If Settle rejects an answer
	// that is not a refusal, the step is done: the saga turns back and undoes the step.
	Settle func(ctx context.Context, tx TTx, r Run[In], o call.Outcome[Out]) error
}

// UndoRequest is a request that undoes a Request with the output Out.
type UndoRequest[TTx, In, Out, Req, Ans any] struct {
	At *call.Provider
	// Intent returns the request. Run.ForwardKey is the key of the request that is undone.
	Intent func(ctx context.Context, tx TTx, r Run[In], out Out) (Req, error)
	Do     func(ctx context.Context, req Req, key string) (Ans, error)
	LookUp func(ctx context.Context, req Req, key string) (ans Ans, found bool, err error)
	Cancel func(ctx context.Context, req Req, key string) (ans Ans, done bool, err error)
	Memory time.Duration
	Settle func(ctx context.Context, tx TTx, r Run[In], o call.Outcome[Ans]) error
}

// outputOf returns the output of the step that is undone.
func outputOf[Out, In any](r Run[In]) (Out, error) {
	run, _ := r.facts.State.Run(r.facts.Step, r.facts.Occurrence)
	return decodeOutput[Out](r.facts, run.Output)
}

// CallUndo undoes a Call. It is an UndoRequest or a Local.
type CallUndo[TTx, In, Out any] interface {
	undoes(o *engine.Outside[TTx], in In, out Out) error
}

// Local undoes a Call in a transaction of your own database, without a request.
type Local[TTx, In, Out any] func(ctx context.Context, tx TTx, r Run[In], out Out) error

func (l Local[TTx, In, Out]) undoes(o *engine.Outside[TTx], _ In, _ Out) error {
	if l == nil {
		return errors.New("its undo is a nil function: leave the undo out with nil")
	}
	o.Local = undoing[TTx, In, Out](l)
	return nil
}

func (u UndoRequest[TTx, In, Out, Req, Ans]) undoes(o *engine.Outside[TTx], _ In, _ Out) error {
	r := Request[TTx, In, Req, Ans]{At: u.At, Do: u.Do, LookUp: u.LookUp, Cancel: u.Cancel, Memory: u.Memory,
		Settle: u.Settle}
	if u.Intent != nil {
		r.Intent = func(ctx context.Context, tx TTx, r Run[In]) (Req, error) {
			out, err := outputOf[Out](r)
			if err != nil {
				var none Req
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

// Call returns a step that sends a request to another system. The engine stores the request, sends it outside
// of any transaction, and stores the answer. The function request must depend only on r. The option UndoCall
// or UndoLocal adds an undo. A refusal (skald.Reject) turns the saga back. Use CallWith for functions that
// also read or write in transactions.
func Call[In, Req, Out any](name string, at call.Endpoint[Req, Out], request func(r Run[In]) Req,
	opts ...Option) *Step[In, Out] {
	s := newStep[In, Out](name, plan.Call, engine.StepBody{}, false, nil)
	s.spec.body.Tx = &engine.Outside[any]{Call: plain(at, func(r Run[In]) (Req, error) {
		return request(r), nil
	})}
	for _, o := range opts {
		o(s.spec)
	}
	if fault := at.Fault(); fault != "" {
		s.spec.fault("%s", fault)
	}
	if request == nil {
		s.spec.fault("it has no function that makes its request")
	}
	return s
}

// UndoCall undoes a Call by another request. The function request makes it from the output of the step.
// Run.ForwardKey is the key of the request that is undone.
func UndoCall[In, Out, Req, Ans any](at call.Endpoint[Req, Ans],
	request func(r Run[In], out Out) Req) Option {
	return func(s *spec) {
		o, ok := undoable[In, Out](s, "UndoCall")
		if fault := at.Fault(); fault != "" {
			s.fault("its undo: %s", fault)
		}
		if request == nil {
			s.fault("its undo has no function that makes its request")
		}
		if !ok {
			return
		}
		undo := plain(at, func(r Run[In]) (req Req, err error) {
			out, err := outputOf[Out](r)
			if err != nil {
				return req, err
			}
			return request(r, out), nil
		})
		o.Undo, s.undo = &undo, true
	}
}

// UndoLocal undoes a Call in a transaction of your own database, without a request.
func UndoLocal[TTx, In, Out any](undo func(ctx context.Context, tx TTx, r Run[In], out Out) error) Option {
	return func(s *spec) {
		_, ok := undoable[In, Out](s, "UndoLocal")
		if undo == nil {
			s.fault("its undo is a nil function: leave the option out")
		}
		if !ok {
			return
		}
		o, _ := engine.OutsideOf[TTx](s.body.Tx)
		o.Local = undoing(undo)
		s.body.Tx, s.undo = o, true
	}
}

// undoable returns the Call that an option undoes. It returns false, and records a fault, if the option does
// not fit the step.
func undoable[In, Out any](s *spec, option string) (o *engine.Outside[any], ok bool) {
	o, ok = s.body.Tx.(*engine.Outside[any])
	switch {
	case !ok || s.undo:
		s.fault("%s is for a Call without another undo", option)
	case s.in != typeOf[In]() || s.out != typeOf[Out]():
		s.fault("its %s takes %v and %v, and the step takes %v and returns %v", option, typeOf[In](),
			typeOf[Out](), s.in, s.out)
		ok = false
	}
	return o, ok && !s.undo
}

// plain returns a request that uses no transaction.
func plain[In, Req, Out any](at call.Endpoint[Req, Out],
	request func(r Run[In]) (Req, error)) engine.Request[any] {
	c := call.New[any, In](at, nil, nil)
	return Request[any, In, Req, Out]{At: c.At, Do: c.Do, LookUp: c.LookUp, Cancel: c.Cancel,
		Memory: c.Memory,
		Intent: func(_ context.Context, _ any, r Run[In]) (Req, error) { return request(r) }}.bound()
}

// CallWith is like Call, with a Request that reads and writes in transactions of your own database. The
// writes of Settle commit together with the answer. The argument undo is an UndoRequest, a Local, or nil;
// for nil see NoEffect.
func CallWith[TTx, In, Req, Out any](name string, c Request[TTx, In, Req, Out], undo CallUndo[TTx, In, Out],
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

// bound returns the request without its type parameters. Functions of call.Call receive a message, but a saga
// has none: they get the facts from the context.
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
