package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/circuit"
	"github.com/skald-go/skald/store"
)

// A Call is a handler whose work is done by others: a payment gateway, a mail server. It is made outside of any transaction,
// between two: what is to be asked for is stored, with the key that the provider knows it by; then it is asked; then the answer
// is stored with what follows from it. Each of the three may be done by another instance than the one before.
//
// What became of a call that gave no answer (the process died, time was up, the connection was cut) is not known: it is
// looked up, and made again under the same key, by LookUp and Do, until there is an answer. So the provider must
// know a key again, or LookUp must find whatever was done under it. Messages of the key wait meanwhile.
type Call[TTx, T, TReq, TOut any] struct {
	// At is who is asked: its timeout, its breaker and its limit hold for all calls that name it.
	At *Provider

	// Intent says what to ask for and under which key, which must be the same whenever it is asked of the message. It
	// decides by what it reads in tx; what it writes there is undone. Its answer stands only if no entity in Options.Entities has moved
	// meanwhile: name those that it depends on. An empty key: nothing is to be asked, and what it wrote stands as a
	// handler's does. Errors are a handler's.
	Intent func(ctx context.Context, tx TTx, m skald.Received[T]) (req TReq, key string, err error)

	// Do asks. An error that is skald.Reject is the provider's final "no", which Settle is told of; skald.RetryAfter is "not
	// now"; skald.Permanent makes a dead letter. After any other error it is not known what was done.
	Do func(ctx context.Context, req TReq, key string) (TOut, error)

	// LookUp finds what was done under a key: it is asked first where Do may have been at it before. That it finds
	// nothing does not mean that nothing was done, or will be: then Do is asked again. Skald.Reject is as Do's. Nil: there is none.
	LookUp func(ctx context.Context, req TReq, key string) (out TOut, found bool, err error)

	// Cancel uses a key up, so that nothing will be done under it any more; done: it was before. It is asked instead of Do where
	// the message's effect is to be undone as soon as it is known. It must not be a mere look: a sender that was paused may
	// still wake up. Nil: Do is asked again under the key, and what it did is undone then.
	Cancel func(ctx context.Context, req TReq, key string) (out TOut, done bool, err error)

	// Memory is how long the provider knows a key again, and finds nothing else under it. Do is not asked again after that: if LookUp
	// finds nothing, the message is a dead letter for somebody to look into. Default: for ever.
	Memory time.Duration

	// Settle does in tx what follows from the answer, as any handler does.
	Settle func(ctx context.Context, tx TTx, m skald.Received[T], o Outcome[TOut]) error
}

// An Outcome is what became of a call.
type Outcome[TOut any] struct {
	Value   TOut
	Refused bool   // the provider said no, or was told in time to let it be
	Reason  string // of the refusal
}

// ProviderOptions of a Provider. The zero value works.
type ProviderOptions struct {
	// Timeout is how long a call may take. Default 10 s.
	Timeout time.Duration
	// Limit is how many calls of this process may be under way at a time. More are parked for a moment. Default 16.
	Limit int
	// After Trip calls in a row without an answer no more are made for Rest; then one to see. Their messages are parked, and not
	// charged. Defaults 10 and 5 s.
	Trip int
	Rest time.Duration
}

// A Provider is somebody outside whom calls ask.
type Provider struct {
	name    string
	timeout time.Duration
	breaker *circuit.Breaker
}

// NewProvider is the provider of that name, for the log.
func NewProvider(name string, o *ProviderOptions) *Provider {
	d := ProviderOptions{}
	if o != nil {
		d = *o
	}
	or := func(d, usual time.Duration) time.Duration {
		if d <= 0 {
			return usual
		}
		return d
	}
	if d.Limit <= 0 {
		d.Limit = 16
	}
	if d.Trip <= 0 {
		d.Trip = 10
	}
	return &Provider{name: name, timeout: or(d.Timeout, 10*time.Second),
		breaker: &circuit.Breaker{Limit: d.Limit, Trip: d.Trip, Rest: or(d.Rest, 5*time.Second)}}
}

// An UnknownError is the failure of a message whose call gave no answer: what was done is not known yet.
type UnknownError struct {
	Provider, Key string
	Err           error
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("no answer from %s to the call under key %s; it is looked up, or made again under it: %v", e.Provider, e.Key, e.Err)
}
func (e *UnknownError) Unwrap() error { return e.Err }

// ErrForgotten is the failure of a message whose call gave no answer for so long that the provider may have forgotten its key.
var ErrForgotten = errors.New("inbox: the provider may have forgotten the key: look it up there, then drop the message with what you found, and say by hand what follows")

// OnCall handles the event e by a call to the outside.
func OnCall[TTx, T, TReq, TOut any](in *Inbox[TTx], e skald.Event[T], c Call[TTx, T, TReq, TOut]) {
	in.HandleResult(e.Topic, e.Type, func(ctx context.Context, tx TTx, m skald.Message) (Result, error) {
		r, err := decode(ctx, e, m)
		if err != nil {
			return Result{}, err
		}
		req, key, err := c.Intent(ctx, tx, r)
		if err != nil || key == "" {
			return Result{}, err
		}
		text, err := requestOf(req, key)
		if err != nil {
			return Result{}, err
		}
		return Result{}, &intent{store.Call{Key: key, Request: text}}
	})
	in.calls[kind{e.Topic, e.Type}] = outside[TTx]{
		at: c.At, memory: c.Memory, ask: c.ask,
		settle: func(ctx context.Context, tx TTx, m skald.Message, text string) (Result, error) {
			r, err := decode(ctx, e, m)
			if err != nil {
				return Result{}, err
			}
			var o Outcome[TOut]
			if err := json.Unmarshal([]byte(text), &o); err != nil {
				return Result{}, fmt.Errorf("read the outcome of the call: %w", err)
			}
			return Result{}, c.Settle(ctx, tx, r, o)
		},
	}
}

// ForwardCall is Forward for a step that is taken by a call: from its intent on the step is calling. A compensation that comes then waits
// until it is known what became of the call, has its key used up for that, and undoes what was done, or nothing. A call that is refused
// takes no effect.
func ForwardCall[TTx, T, TReq, TOut any](in *Inbox[TTx], e skald.Event[T], of func(skald.Received[T]) Step, c Call[TTx, T, TReq, TOut],
	barred func(m skald.Received[T]) []skald.Draft) {
	OnCall(in, e, c)
	in.steps[kind{e.Topic, e.Type}] = course{
		state: store.StepDone,
		of:    stepOf(e, of),
		say:   sayOf(e, anyhow(barred)),
	}
}

// CompensateCall is Compensate for a step that is undone by a call: a refund. From its intent on the step is calling, so that whoever
// would undo it, too, waits; it is undone with Settle. TookOf tells Intent and Settle what is to be undone. The key must be one of
// the step, not of the message: "refund-" and the order. A Settle that rejects leaves the step done.
func CompensateCall[TTx, T, TReq, TOut any](in *Inbox[TTx], e skald.Event[T], of func(skald.Received[T]) Step, c Call[TTx, T, TReq, TOut],
	say func(m skald.Received[T], was store.StepState) []skald.Draft) {
	OnCall(in, e, c)
	k, saying := kind{e.Topic, e.Type}, sayOf(e, say)
	said := func(ctx context.Context, m skald.Message, r Result, err error) (Result, error) {
		if err == nil {
			r.Say, err = saying(ctx, m, store.StepDone)
		}
		return r, err
	}
	intend, call := in.handlers[k], in.calls[k]
	settle := call.settle
	in.handlers[k] = func(ctx context.Context, tx TTx, m skald.Message) (Result, error) {
		r, err := intend(ctx, tx, m)
		return said(ctx, m, r, err)
	}
	call.settle = func(ctx context.Context, tx TTx, m skald.Message, outcome string) (Result, error) {
		r, err := settle(ctx, tx, m, outcome)
		return said(ctx, m, r, err)
	}
	in.calls[k] = call
	in.steps[k] = course{state: store.StepUndone, of: stepOf(e, of), say: saying}
}

// Limits of what is stored about a call.
const (
	maxRequest    = 64 << 10
	maxOutsideKey = 255
)

func requestOf(req any, key string) (string, error) {
	if len(key) > maxOutsideKey || !utf8.ValidString(key) || strings.ContainsRune(key, 0) {
		return "", skald.Permanent(fmt.Errorf("the key of the call %.40q is no text of at most %d bytes", key, maxOutsideKey))
	}
	text, err := json.Marshal(req)
	if err != nil {
		return "", skald.Permanent(fmt.Errorf("encode the request of the call as JSON: %w", err))
	}
	if len(text) > maxRequest {
		return "", skald.Permanent(fmt.Errorf("the request of the call is %d bytes, at most %d are kept: keep it in a table of yours", len(text), maxRequest))
	}
	return string(text), nil
}

// ask finds out what becomes of a call: known is what is known of it before. It answers an encoded Outcome.
func (c *Call[TTx, T, TReq, TOut]) ask(ctx context.Context, call store.Call, h history) (string, error) {
	var req TReq
	if err := json.Unmarshal([]byte(call.Request), &req); err != nil {
		return "", skald.Permanent(fmt.Errorf("read the request of the call: %w", err))
	}
	out, err := c.answer(ctx, req, call, h)
	o := Outcome[TOut]{Value: out}
	if no := (*skald.RejectedError)(nil); errors.As(err, &no) {
		o, err = Outcome[TOut]{Refused: true, Reason: no.Err.Error()}, nil
	}
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return "", skald.Permanent(fmt.Errorf("encode the outcome of the call as JSON: %w", err))
	}
	return string(text), nil
}

// history is what is known of a call before it is made.
type history struct {
	begun     bool // somebody may have made it
	forgotten bool // the provider may not know the key again
}

// errCancelled is the reason of a call that was told in time to let it be.
var errCancelled = errors.New("cancelled before it was done")

func (c *Call[TTx, T, TReq, TOut]) answer(ctx context.Context, req TReq, call store.Call, h history) (out TOut, err error) {
	if h.begun && c.LookUp != nil {
		out, found, err := c.LookUp(ctx, req, call.Key)
		if err != nil || found {
			return out, err
		}
	}
	switch {
	case h.begun && h.forgotten:
		return out, skald.Permanent(ErrForgotten)
	case call.Undo && c.Cancel != nil:
		out, done, err := c.Cancel(ctx, req, call.Key)
		if err == nil && !done {
			err = skald.Reject(errCancelled)
		}
		return out, err
	}
	return c.Do(ctx, req, call.Key)
}
