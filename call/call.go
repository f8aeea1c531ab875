// Package call makes outside calls, of a payment gateway or a mail server, so that each has its effect once.
// A call has three phases, each of which may be done by another process than the one before: the intent is
// stored, with the key that the provider knows the call by; the request is sent, outside of any transaction;
// the answer is stored together with what follows from it. Whatever is to be called belongs to an owner, a
// parked message or a step of a saga, which stores the first and the third phase: see Make.
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
	"github.com/skald-go/skald/store"
)

// A Call is a handler whose work is done by a provider outside.
//
// What became of a request without an answer (the process died, time was up, the connection was cut) is not
// known: it is looked up by LookUp, and sent again by Do under the same key, until there is an answer. So the
// provider must know a key again, or LookUp must find what was done under it. Messages of the same key wait
// meanwhile.
type Call[TTx, T, TReq, TOut any] struct {
	// At is the provider: its timeout, its circuit breaker and its limit hold for all calls that name it.
	At *Provider

	// Intent says what to request and under which key; the key must be the same whenever Intent is asked of
	// one message. It reads in tx; what it writes there is rolled back. The intent stands only if no entity
	// in Options.Transaction.Entities has changed meanwhile: name those that it depends on. An empty key:
	// nothing is requested, and what Intent wrote is committed as a handler's. Errors are a handler's.
	Intent func(ctx context.Context, tx TTx, m skald.Received[T]) (req TReq, key string, err error)

	// Do sends the request. skald.Reject is the provider's final refusal, which Settle is told of. With
	// events it makes a dead letter: publish them in Settle. skald.RetryAfter is "not now"; skald.Permanent
	// makes a dead letter. After any other error it is not known what was done.
	Do func(ctx context.Context, req TReq, key string) (TOut, error)

	// LookUp finds what was done under a key. It is asked first where Do may have been called before. If it
	// finds nothing, Do is called again: the request may still be under way. skald.Reject is as Do's. Nil:
	// the provider cannot be asked.
	LookUp func(ctx context.Context, req TReq, key string) (out TOut, found bool, err error)

	// Cancel voids a key, so that nothing will be done under it any more; done: it was done before. It is
	// called instead of Do where the message's effect is to be undone as soon as it is known. To look is not
	// enough: a sender that was paused may still wake up. Nil: Do is called again under the key, and what it
	// did is undone then.
	Cancel func(ctx context.Context, req TReq, key string) (out TOut, done bool, err error)

	// Memory is how long the provider keeps keys, by the clock of the database since the intent was stored.
	// Do is not called again after that: if LookUp finds nothing, the message is a dead letter for an
	// operator to look into. Default: for ever.
	Memory time.Duration

	// Settle writes in tx what follows from the answer, as any handler does.
	Settle func(ctx context.Context, tx TTx, m skald.Received[T], o Outcome[TOut]) error
}

// An Outcome is the answer to a call.
type Outcome[TOut any] struct {
	Value   TOut
	Refused bool   // the provider said no, or its key was voided in time
	Reason  string // of the refusal
}

// ErrForgotten is the failure of a call without an answer that is older than Call.Memory.
var ErrForgotten = errors.New("call: the provider may have forgotten the key: look it up there, then drop the message with what you found, and say by hand what follows")

// errCancelled is the reason of a call whose key was voided before it was done.
var errCancelled = errors.New("cancelled before it was done")

// Limits of what is stored of a call, in bytes.
const (
	maxRequest = 64 << 10
	maxKey     = 255
)

// requested is a call as it is stored before it is made.
func requested(req any, key string) (*store.Call, error) {
	if len(key) > maxKey || !utf8.ValidString(key) || strings.ContainsRune(key, 0) {
		return nil, skald.Permanent(fmt.Errorf("the key of the call %.40q is no text of at most %d bytes",
			key, maxKey))
	}
	text, err := json.Marshal(req)
	if err != nil {
		return nil, skald.Permanent(fmt.Errorf("encode the request of the call as JSON: %w", err))
	}
	if len(text) > maxRequest {
		return nil,
			skald.Permanent(
				fmt.Errorf(
					"the request of the call is %d bytes, at most %d are kept: keep it in a table of yours",
					len(text), maxRequest))
	}
	return &store.Call{Key: key, Request: string(text)}, nil
}

// history is what is known of a call before it is made.
type history struct {
	begun     bool // it may have been made before
	forgotten bool // the provider may not know the key any more
}

// ask returns the encoded Outcome of a call.
func (c *Call[TTx, T, TReq, TOut]) ask(ctx context.Context, call store.Call, h history) (string, error) {
	out, err := c.answer(ctx, call, h)
	o := Outcome[TOut]{Value: out}
	if no := (*skald.RejectedError)(nil); errors.As(err, &no) && no.Err != nil {
		if len(no.Say) > 0 {
			return "", skald.Permanent(fmt.Errorf("the refusal of a call (%v) has %d events, which no "+
				"transaction can store: return skald.Reject with them from Settle", no.Err, len(no.Say)))
		}
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

// read returns the request for one function: what that changes in it, no other one sees.
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

// Refused reports whether an encoded Outcome is a refusal: nothing was done.
func Refused(outcome string) bool {
	var o struct{ Refused bool }
	return json.Unmarshal([]byte(outcome), &o) == nil && o.Refused
}
