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

// Bound is a Call without most of its type parameters, so that an owner can run calls of different types.
type Bound[TTx any] struct {
	// Intend runs the first phase, in a transaction that the owner ends. It returns the call to store, and
	// the owner then rolls back all other writes. It returns nil if no request is needed, and the owner then
	// commits the writes.
	Intend func(ctx context.Context, tx TTx, m skald.Message) (*store.Call, error)
	// Settle runs the third phase, in the transaction that stores the outcome.
	Settle func(ctx context.Context, tx TTx, m skald.Message, outcome string) error

	at     *Provider
	memory time.Duration
	ask    func(ctx context.Context, c store.Call, h history) (outcome string, err error)
	by     By
}

// By describes the component that owns a call.
type By struct {
	Name   string        // the consumer or saga, for the log
	Retry  time.Duration // the wait if the provider's limit is reached
	Now    func() time.Time
	Logger *slog.Logger
}

// Bind returns c without its type parameters. The function decode decodes the message of a call.
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
			return encodeCall(req, key)
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

// Timeout returns how long a request of this call may take. The owner's lease must be longer.
func (b Bound[TTx]) Timeout() time.Duration { return b.at.timeout }

// Lease is the time in which no other process takes over the work of a call. It starts at Since, by the clock
// of this process.
type Lease struct {
	Since time.Time
	For   time.Duration // without the time needed to store the answer
}

// age returns the time since the lease began, by the larger of two clocks. The monotonic clock stops while
// the machine is suspended; the wall clock may be set.
func (l Lease) age(now time.Time) time.Duration {
	return max(now.Sub(l.Since), now.Round(0).Sub(l.Since.Round(0)))
}

// Timely reports whether a request that starts now ends within the lease.
func (b Bound[TTx]) Timely(l Lease) bool { return l.age(b.by.Now())+b.at.timeout <= l.For }

// Owner is a message or a step of a saga that a call belongs to. Before Make the owner has stored the call,
// under guards that ensure that no other process has this work. So after a crash the next process finds the
// call and its key.
//
// Each method except Lease, Sending and GivesUp ends the attempt. It stores the result under the same guards,
// and returns the owner's own result.
type Owner[R any] interface {
	// Lease returns how long this process has the work.
	Lease() Lease
	// Sending is called directly before Make sends a request. It may add values to ctx. Make calls over after
	// the request has ended.
	Sending(ctx context.Context, timeout time.Duration) (with context.Context, over func())

	// GivesUp reports whether Make fails if a request ignores its context. If GivesUp returns false, Make
	// waits for the request.
	GivesUp() bool

	// Answered stores c.Outcome together with the writes of Settle, in one transaction. If that fails, it
	// stores only c with its outcome, so that no process sends the request again.
	Answered(ctx context.Context, c store.Call) R
	// Later stores the call for a later attempt, because no request was sent or the provider answered "not
	// now". This does not count as a failed attempt.
	Later(ctx context.Context, after time.Duration, err error) R
	// Failed stores the call and counts a failed attempt.
	Failed(ctx context.Context, err error) R
	// Late changes nothing, because the lease is about to end and another process may then take over the
	// work.
	Late() R
}

// Make sends the request of a stored call, unless its outcome is known. The owner then stores the result. If
// begun is true, any process may have sent the request before; then LookUp runs first.
func Make[TTx, R any](ctx context.Context, b Bound[TTx], o Owner[R], c store.Call, begun bool) R {
	if c.Outcome != "" {
		return o.Answered(ctx, c)
	}
	pass, wait := b.at.breaker.Enter(b.by.Now())
	if pass == nil {
		if wait == 0 {
			return o.Later(ctx, backoff.After(1, b.by.Retry, b.by.Retry),
				fmt.Errorf("no request to %s now: its limit of concurrent requests is reached", b.at.name))
		}
		return o.Later(ctx, wait, fmt.Errorf("no request to %s now, because earlier ones got no answer: the log has "+
			"their errors", b.at.name))
	}
	lease := o.Lease()
	if !b.Timely(lease) {
		pass.Abandon()
		return o.Late()
	}
	h := history{begun: begun, forgotten: b.memory > 0 && c.Age+lease.age(b.by.Now()) >= b.memory}
	outcome, pending, err := send(ctx, b, o, c, h)
	if pending != nil { // the request uses the provider's limit while it runs
		go func() {
			<-pending
			pass.Leave(true, b.by.Now())
		}()
		return o.Failed(ctx, &failure.UnknownError{Provider: b.at.name, Key: c.Key, Err: err})
	}
	var notNow *skald.LaterError
	var never *skald.PermanentError
	switch {
	case err == nil:
		pass.Leave(false, b.by.Now())
		c.Outcome = outcome
		return o.Answered(ctx, c)
	case ctx.Err() != nil: // the process is stopping
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
		b.by.Logger.WarnContext(ctx, "call: a provider does not answer; requests to it are suspended for a while",
			"consumer", b.by.Name, "provider", b.at.name, "error", err)
	}
	return o.Failed(ctx, &failure.UnknownError{Provider: b.at.name, Key: c.Key, Err: err})
}

// graceTime is how long Make waits for a request after its timeout.
const graceTime = time.Second

// send sends the request. If the request ignores the end of its context, pending receives its result later.
func send[TTx, R any](ctx context.Context, b Bound[TTx], o Owner[R], c store.Call,
	h history) (outcome string, pending <-chan error, err error) {
	ctx, over := o.Sending(ctx, b.at.timeout)
	ctx, cancel := context.WithTimeout(ctx, b.at.timeout)
	defer cancel()
	var answer string
	done := failure.Start(func() (err error) {
		defer over()
		answer, err = b.ask(ctx, c, h)
		return err
	})
	if !o.GivesUp() {
		err := <-done
		return answer, nil, err
	}
	late := time.NewTimer(b.at.timeout + graceTime)
	defer late.Stop()
	select {
	case err := <-done:
		return answer, nil, err
	case <-late.C:
		return "", done, fmt.Errorf("the request took longer than its timeout (%v), ignores its context and still runs",
			b.at.timeout)
	}
}
