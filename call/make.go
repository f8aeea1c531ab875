package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/store"
)

// A Bound is a Call without its types, so that an owner can drive calls of different types alike.
type Bound[TTx any] struct {
	// Intend is the first phase, in a transaction that the owner ends: the call to be stored instead of what
	// was written there, or nil where nothing is to be requested and what was written stands.
	Intend func(ctx context.Context, tx TTx, m skald.Message) (*store.Call, error)
	// Settle is the third phase, in the transaction that stores the outcome.
	Settle func(ctx context.Context, tx TTx, m skald.Message, outcome string) error

	at     *Provider
	memory time.Duration
	ask    func(ctx context.Context, c store.Call, h history) (outcome string, err error)
	by     By
}

// By is on whose behalf calls are made.
type By struct {
	Name   string        // of the consumer or the saga, for the log
	Retry  time.Duration // how long to wait where the provider has no room
	Now    func() time.Time
	Logger *slog.Logger
}

// Bind returns c without its types. Decode reads the message of a call.
func Bind[TTx, T, TReq, TOut any](c Call[TTx, T, TReq, TOut], by By,
	decode func(context.Context, skald.Message) (skald.Received[T], error)) Bound[TTx] {
	return Bound[TTx]{at: c.At, memory: c.Memory, ask: c.ask, by: by,
		Intend: func(ctx context.Context, tx TTx, m skald.Message) (*store.Call, error) {
			r, err := decode(ctx, m)
			if err != nil {
				return nil, err
			}
			req, key, err := c.Intent(ctx, tx, r)
			if err != nil || key == "" {
				return nil, err
			}
			return requested(req, key)
		},
		Settle: func(ctx context.Context, tx TTx, m skald.Message, text string) error {
			r, err := decode(ctx, m)
			if err != nil {
				return err
			}
			var o Outcome[TOut]
			if err := json.Unmarshal([]byte(text), &o); err != nil {
				return fmt.Errorf("read the outcome of the call: %w", err)
			}
			return c.Settle(ctx, tx, r, o)
		},
	}
}

// Timeout is how long a request of this call may take. An owner's lease must be longer.
func (b Bound[TTx]) Timeout() time.Duration { return b.at.timeout }

// A Lease is how long nobody else takes up the work that a call belongs to: so long from Since on, by the
// clock of this process.
type Lease struct {
	Since time.Time
	For   time.Duration // without the time that it takes to store the answer
}

// age is the time since the lease began. Two clocks measure it: the monotonic one stands still while the
// machine is suspended, the other may be set. The larger counts.
func (l Lease) age(now time.Time) time.Duration {
	return max(now.Sub(l.Since), now.Round(0).Sub(l.Since.Round(0)))
}

// Timely reports whether a request that is sent now ends before others may take up the work.
func (b Bound[TTx]) Timely(l Lease) bool { return l.age(b.by.Now())+b.at.timeout <= l.For }

// An Owner is the work that a call belongs to: a message, a step of a saga. Before Make it has stored the
// call, in an effect whose guards hold that nobody else has the work; so whoever takes the work up after a
// crash finds the call, and its key. Each method but Lease and Sending ends the attempt, stores how, under
// the same guards, and returns what the owner makes of that.
type Owner[R any] interface {
	// Lease is how long the work belongs to this process.
	Lease() Lease
	// Sending is asked directly before a request is sent. It may add to ctx, and over is called when the
	// request has ended.
	Sending(ctx context.Context, timeout time.Duration) (with context.Context, over func())

	// Answered has c.Outcome stored together with what Settle writes, in one transaction. If that fails, c is
	// to be kept with its outcome: the request is not sent again.
	Answered(ctx context.Context, c store.Call) R
	// Later keeps the call for a later attempt: nothing was sent, or the provider said "not now". It is no
	// failure.
	Later(ctx context.Context, after time.Duration, err error) R
	// Failed keeps the call with a failed attempt.
	Failed(ctx context.Context, err error) R
	// Late leaves all as it is: the lease is about to end, so another process may take up the work.
	Late() R
}

// Make sends the request of a stored call, unless its outcome is known, and has the owner store what follows.
// Begun: the request may have been sent before, by this process or another; then it is looked up first.
func Make[TTx, R any](ctx context.Context, b Bound[TTx], o Owner[R], c store.Call, begun bool) R {
	if c.Outcome != "" {
		return o.Answered(ctx, c)
	}
	pass, wait := b.at.breaker.Enter(b.by.Now())
	if pass == nil {
		if wait == 0 {
			return o.Later(ctx, backoff.After(1, b.by.Retry, b.by.Retry),
				fmt.Errorf("%s is not asked now: as many requests as it may have are under way", b.at.name))
		}
		return o.Later(ctx, wait, fmt.Errorf("%s is not asked now, since others got no answer: the log has "+
			"their errors", b.at.name))
	}
	lease := o.Lease()
	if !b.Timely(lease) {
		pass.Abandon()
		return o.Late()
	}
	h := history{begun: begun, forgotten: b.memory > 0 && c.Age+lease.age(b.by.Now()) >= b.memory}
	outcome, err := send(ctx, b, o, c, h)
	var notNow *skald.LaterError
	var never *skald.PermanentError
	switch {
	case err == nil:
		pass.Leave(false, b.by.Now())
		c.Outcome = outcome
		return o.Answered(ctx, c)
	case ctx.Err() != nil: // the process is told to stop
		pass.Abandon()
		return o.Failed(ctx, err)
	case errors.As(err, &notNow):
		pass.Leave(false, b.by.Now())
		return o.Later(ctx, notNow.After, err)
	case errors.As(err, &never):
		pass.Leave(false, b.by.Now())
		return o.Failed(ctx, err)
	}
	if pass.Leave(true, b.by.Now()) {
		b.by.Logger.WarnContext(ctx, "call: a provider does not answer; it is let alone for a while",
			"consumer", b.by.Name, "provider", b.at.name, "error", err)
	}
	return o.Failed(ctx, &failure.UnknownError{Provider: b.at.name, Key: c.Key, Err: err})
}

func send[TTx, R any](ctx context.Context, b Bound[TTx], o Owner[R], c store.Call,
	h history) (outcome string, err error) {
	ctx, over := o.Sending(ctx, b.at.timeout)
	defer over()
	ctx, cancel := context.WithTimeout(ctx, b.at.timeout)
	defer cancel()
	err = failure.Run(func() (err error) {
		outcome, err = b.ask(ctx, c, h)
		return err
	})
	return outcome, err
}
