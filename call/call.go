// Package call makes external calls, for example to a payment gateway or a mail server, so that each call has
// its effect once. A call has three phases, and each may run in another process:
//
//   - Skald stores the intent, with the idempotency key.
//   - Skald sends the request, outside of any transaction.
//   - Skald stores the answer together with its consequences.
//
// A service makes a Provider and an Endpoint. It passes the Endpoint to saga.Call, or to New for
// inbox.OnCall.
//
// # For drivers
//
// Bind, Bound, By, InTx, Lease, Make, Owner and Refused are for the owners of calls: the inbox and the saga
// engine. An owner stores the first and the third phase, with a parked message or a step of a saga.
package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/store"
)

// Call is a handler for work that an external provider does.
//
// If a request gets no answer, its outcome is unknown: the process died, the timeout passed, or the
// connection broke. Skald then calls LookUp. If LookUp finds nothing, Skald calls Do again with the same key,
// until there is an answer. So the provider must deduplicate by key, or LookUp must find the earlier work.
// Meanwhile later messages of the same message key wait.
type Call[TTx, T, TReq, TOut any] struct {
	// At is the provider. Its timeout, circuit breaker and limit apply to all calls with this provider.
	At *Provider

	// Intent returns the request and its key. The key must be the same each time that Intent runs for one
	// message. Intent may read in tx; its writes are rolled back. With an empty key Skald sends no request,
	// and commits the writes of Intent like those of a handler. Errors are treated like those of a handler.
	//
	// Skald stores the intent only if no entity in Options.Transaction.Entities has changed meanwhile. So
	// Entities must return the entities that Intent depends on.
	Intent func(ctx context.Context, tx TTx, m skald.Received[T]) (req TReq, key string, err error)

	// Do sends the request. It returns skald.Reject for a final refusal by the provider, which Settle
	// receives. A refusal with events makes a dead letter: publish the events in Settle. It returns
	// skald.RetryAfter if the provider answers "not now". skald.Permanent makes a dead letter. After any
	// other error the outcome is unknown.
	Do func(ctx context.Context, req TReq, key string) (TOut, error)

	// LookUp finds the earlier work under a key. It runs first if Do may have run before. If it finds
	// nothing, Do runs again, because the earlier request may still be in progress. skald.Reject has the same
	// meaning as in Do. LookUp is nil if the provider offers no lookup.
	LookUp func(ctx context.Context, req TReq, key string) (out TOut, found bool, err error)

	// Cancel voids a key, so that the provider never does work under it later. Done reports that the provider
	// had already done the work. Cancel runs instead of Do if the saga will undo the effect of the message
	// anyway. A lookup is not enough for that, because a paused sender may still resume. If Cancel is nil, Do
	// runs again under the key, and then the effect is undone.
	Cancel func(ctx context.Context, req TReq, key string) (out TOut, done bool, err error)

	// Memory is how long the provider remembers a key. The time starts when the intent was stored, by the
	// database's clock. After it Do does not run again. If LookUp then finds nothing, the message becomes a
	// dead letter for an operator. Default: forever.
	Memory time.Duration

	// Settle writes the consequences of the answer in tx, like any handler.
	Settle func(ctx context.Context, tx TTx, m skald.Received[T], o Outcome[TOut]) error
}

// Outcome is the answer to a call.
type Outcome[TOut any] struct {
	Value   TOut
	Refused bool   // the provider refused, or the key was voided in time
	Reason  string // the reason of the refusal
}

// ErrForgotten is the error of a call that has no answer and is older than Call.Memory.
var ErrForgotten = errors.New("call: the provider may have forgotten the key: look it up there, then drop the message with that result, and carry out its consequences by hand")

// errCancelled is the reason of a call if its key was voided before the provider did the work.
var errCancelled = errors.New("cancelled before it was done")

// Limits of a stored call, in bytes.
const (
	maxRequest = 64 << 10
	maxKey     = 255
)

// encodeCall encodes a call for the store.
func encodeCall(req any, key string) (*store.Call, error) {
	if len(key) > maxKey || !utf8.ValidString(key) || strings.ContainsRune(key, 0) {
		return nil, skald.Permanent(fmt.Errorf("the key of the call %.40q is not UTF-8 text without NUL of at most %d bytes",
			key, maxKey))
	}
	var m skald.Message
	if err := (skald.JSON{}).Encode(context.Background(), &m, req); err != nil {
		return nil, skald.Permanent(fmt.Errorf("the request of the call: %w", err))
	}
	text := m.Data
	if len(text) > maxRequest {
		return nil,
			skald.Permanent(
				fmt.Errorf(
					"the request of the call is %d bytes, at most %d are allowed: store it in a table of yours",
					len(text), maxRequest))
	}
	return &store.Call{Key: key, Request: string(text)}, nil
}

// history has the facts about earlier attempts of a call.
type history struct {
	begun     bool // it may have been made before
	forgotten bool // the provider may not know the key any more
}

// ask makes one attempt at the call and returns the encoded Outcome.
func (c *Call[TTx, T, TReq, TOut]) ask(ctx context.Context, call store.Call, h history) (string, error) {
	out, err := c.answer(ctx, call, h)
	err = failure.Legible(err)
	o := Outcome[TOut]{Value: out}
	if refusal := (*skald.RejectedError)(nil); errors.As(err, &refusal) {
		if len(refusal.Publish) > 0 {
			return "", skald.Permanent(fmt.Errorf("the refusal of a call (%v) has %d events, which no "+
				"transaction can store: return skald.Reject with them from Settle", refusal.Err, len(refusal.Publish)))
		}
		o, err = Outcome[TOut]{Refused: true, Reason: strings.ToValidUTF8(refusal.Err.Error(), "\ufffd")}, nil
	}
	if err != nil {
		return "", err
	}
	var m skald.Message
	if err := (skald.JSON{}).Encode(ctx, &m, o); err != nil {
		return "", skald.Permanent(fmt.Errorf("the outcome of the call: %w", err))
	}
	return string(m.Data), nil
}

// read decodes the request again for each function, so that no function sees the changes of another.
func (c *Call[TTx, T, TReq, TOut]) read(call store.Call) (req TReq, err error) {
	if err := json.Unmarshal([]byte(call.Request), &req); err != nil {
		return req, skald.Permanent(fmt.Errorf("read the request of the call: %w", err))
	}
	return req, nil
}

func (c *Call[TTx, T, TReq, TOut]) answer(ctx context.Context, call store.Call,
	h history) (out TOut, err error) {
	req, err := c.read(call)
	if err != nil {
		return out, err
	}
	if h.begun && c.LookUp != nil {
		out, found, err := c.LookUp(ctx, req, call.Key)
		if err != nil || found {
			return out, err
		}
		if req, err = c.read(call); err != nil {
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

// Refused reports whether an encoded Outcome is a refusal, which means that the provider did nothing.
func Refused(outcome string) bool {
	var o struct{ Refused bool }
	return json.Unmarshal([]byte(outcome), &o) == nil && o.Refused
}
