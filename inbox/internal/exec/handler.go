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

// Reply is the result of a handler, in addition to the rows that the handler wrote.
type Reply struct {
	Code    int32
	Value   any           // Config.Codec encodes it once; nil means none
	Publish []skald.Draft // written into the outbox, after the messages that the handler wrote
}

// Handler handles a message in its transaction.
type Handler[TTx any] func(ctx context.Context, tx TTx, m skald.Message) (Reply, error)

// BatchHandler handles several messages in one transaction. After an error failing is the index of the
// message that failed, or negative if the index is unknown.
type BatchHandler[TTx any] func(ctx context.Context, tx TTx, ms []skald.Message) (failing int, err error)

// LegacyDedupFunc adds a message to the user's deduplication table. It returns true if the table already had
// it.
type LegacyDedupFunc[TTx any] func(ctx context.Context, tx TTx, id store.Identity,
	m skald.Message) (known bool, err error)

// run calls the handler of e with a time limit. If the handler takes longer, the message fails, unless the
// consumer is stopping. After the grace the transaction is rolled back, and the result of the handler is
// ignored.
func (x *Executor[TTx]) run(ctx context.Context, e *partition.Entry,
	unit store.Unit[TTx]) (r Reply, err error) {
	begun, tx, m := time.Now(), unit.Tx(), copyOf(e)
	hctx, cancel := context.WithTimeout(withLoan(skald.WithCause(ctx, e.Message), x.o.Group, tx, e.Message),
		x.o.Handle)
	defer cancel()
	handler := x.handler(e)
	r, err = runLimited(ctx, x, []*partition.Entry{e},
		func() (Reply, error) { return handler(hctx, tx, m) })
	took := time.Since(begun)
	x.o.Telemetry.Ran(e.Topic, took)
	if hungEntries(err) != nil {
		unit.Drop()
	}
	unit.Return() // before the context ends, so that functions that wait for that end change nothing
	stopped := ctx.Err() != nil && !errors.Is(context.Cause(ctx), failure.ErrTimeout)
	switch {
	case took < x.o.Handle || stopped || hungEntries(err) != nil:
		return r, err
	case ctx.Err() != nil || took >= x.o.Handle+grace:
		return r, fmt.Errorf("%w (%v): after %v it returned: %v", failure.ErrTimeout, x.o.Handle,
			took.Round(time.Millisecond), err)
	case err != nil:
		return r, fmt.Errorf("%w (%v): %w", failure.ErrTimeout, x.o.Handle, err)
	}
	return r, nil
}

// copyOf returns a copy of the message of e for one call of a user's function. The function may change its
// message: a codec may decrypt in place. A retry, a parked message and the fingerprint need the original.
func copyOf(e *partition.Entry) skald.Message {
	m := e.Message
	m.Key, m.Data = bytes.Clone(m.Key), bytes.Clone(m.Data)
	m.Headers = slices.Clone(m.Headers)
	for i := range m.Headers {
		m.Headers[i].Value = bytes.Clone(m.Headers[i].Value)
	}
	return m
}

// withLoan returns a context for a handler that receives tx and m.
func withLoan[TTx any](ctx context.Context, consumer string, tx TTx, m skald.Message) context.Context {
	return lending.With(ctx, lending.Loan{Tx: tx, Consumer: consumer, ID: m.ID, Type: m.Type})
}

type fenceKey struct{}

// withVersions returns a context with the versions of the locked entities.
func withVersions(ctx context.Context, locks []store.Lock, versions []int64) context.Context {
	if len(locks) == 0 {
		return ctx
	}
	versionOf := make(map[store.Lock]int64, len(locks))
	for i, l := range locks {
		versionOf[store.Lock{Space: l.Space, Key: l.Key}] = versions[i]
	}
	return context.WithValue(ctx, fenceKey{}, versionOf)
}

// Fence returns the version of an entity in the transaction of ctx, or 0 if the transaction has not locked
// it.
func Fence(ctx context.Context, space, key string) int64 {
	versionOf, _ := ctx.Value(fenceKey{}).(map[store.Lock]int64)
	return versionOf[store.Lock{Space: space, Key: key}]
}
