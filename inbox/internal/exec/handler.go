package exec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/lending"
	"github.com/skald-go/skald/store"
)

// A Reply is what a handler answers besides its effect.
type Reply struct {
	Code    int32
	Value   any           // encoded once, by Config.Codec. Nil: none
	Publish []skald.Draft // written into the outbox, after what the handler wrote itself
}

// A Handler is what is run for a message in its transaction.
type Handler[TTx any] func(ctx context.Context, tx TTx, m skald.Message) (Reply, error)

// A BatchHandler is what is run for several messages at once. FailMessage gives the index of the one that
// failed; below zero: one of them.
type BatchHandler[TTx any] func(ctx context.Context, tx TTx, ms []skald.Message) (guilty int, err error)

// LegacyDedupFunc asks a table of the user's whether a message was handled, and notes that it is.
type LegacyDedupFunc[TTx any] func(ctx context.Context, tx TTx, id store.Identity,
	m skald.Message) (known bool, err error)

// run calls the handler of e, with a bound on its time. One that took longer has failed, unless the whole
// consumer was told to end; and where its transaction may be gone meanwhile, what it says does not count.
func (x *Executor[TTx]) run(ctx context.Context, e *partition.Entry,
	unit store.Unit[TTx]) (r Reply, err error) {
	begun, tx := time.Now(), unit.Tx()
	hctx, cancel := context.WithTimeout(lends(skald.WithCause(ctx, e.Message), x.o.Group, tx, e.Message),
		x.o.Handle)
	defer cancel()
	over := x.acts.begin(x.o.Handle, e)
	r, err = safely(x.handler(e), hctx, tx, copyOf(e))
	unit.Return() // before its context ends: a function that waits for that end changes nothing
	over()
	took := time.Since(begun)
	x.o.Telemetry.Ran(e.Topic, took)
	stopped := ctx.Err() != nil && !errors.Is(context.Cause(ctx), failure.ErrTimeout)
	switch {
	case took < x.o.Handle || stopped:
		return r, err
	case ctx.Err() != nil || took >= x.o.Handle+mercy:
		return r, fmt.Errorf("%w (%v): after %v it said: %v", failure.ErrTimeout, x.o.Handle,
			took.Round(time.Millisecond), err)
	case err != nil:
		return r, fmt.Errorf("%w (%v): %w", failure.ErrTimeout, x.o.Handle, err)
	}
	return r, nil
}

// copyOf returns a copy of the message of e for one call of a user's function, which may change it: a codec
// may decrypt in place. A retry, a parked message and the fingerprint need the original.
func copyOf(e *partition.Entry) skald.Message {
	m := e.Message
	m.Key, m.Data = bytes.Clone(m.Key), bytes.Clone(m.Data)
	m.Headers = slices.Clone(m.Headers)
	for i := range m.Headers {
		m.Headers[i].Value = bytes.Clone(m.Headers[i].Value)
	}
	return m
}

// lends is ctx for a handler of m, which gets tx.
func lends[TTx any](ctx context.Context, consumer string, tx TTx, m skald.Message) context.Context {
	return lending.With(ctx, lending.Loan{Tx: tx, Consumer: consumer, ID: m.ID, Type: m.Type})
}

func safely[TTx any](h Handler[TTx], ctx context.Context, tx TTx, m skald.Message) (r Reply, err error) {
	err = guarded[TTx](ctx, func() (err error) {
		r, err = h(ctx, tx, m)
		return err
	})
	return r, err
}

type fenceKey struct{}

// fenced is ctx with the versions that a transaction gives the entities it has locked.
func fenced(ctx context.Context, locks []store.Lock, versions []int64) context.Context {
	if len(locks) == 0 {
		return ctx
	}
	held := make(map[store.Lock]int64, len(locks))
	for i, l := range locks {
		held[store.Lock{Space: l.Space, Key: l.Key}] = versions[i]
	}
	return context.WithValue(ctx, fenceKey{}, held)
}

// Fence is the version that the transaction of ctx gives an entity; 0: the entity is not locked.
func Fence(ctx context.Context, space, key string) int64 {
	held, _ := ctx.Value(fenceKey{}).(map[store.Lock]int64)
	return held[store.Lock{Space: space, Key: key}]
}
