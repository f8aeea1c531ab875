// Package outbox writes messages in the caller's transaction. A relay publishes them if, and only if, the
// transaction commits.
//
//	your tx ─► [outbox] ─► relay ─► broker ─► inbox ─► handler's tx ─► outbox ─► …
package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/internal/lending"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/store"
)

// Store is the part of a database driver that an outbox needs. Every store.Driver implements it.
type Store[TTx any] interface {
	Write(ctx context.Context, tx TTx, es ...store.Effect) error
	Enter(ctx context.Context, tx TTx, in store.Intake) (store.Found, error)
	Secret(ctx context.Context) ([]byte, error)
}

// Options configures an Outbox. The zero value works.
type Options struct {
	Codec skald.Codec                // encodes drafts without a codec. Default JSON
	Now   func() time.Time           // the time of messages. Default time.Now
	NewID func(now time.Time) string // default: UUIDs of version 7

	MeterProvider metric.MeterProvider // for metrics of written messages. Default OpenTelemetry's global one
}

// Outbox writes messages to the outbox table. It is safe for concurrent use.
type Outbox[TTx any] struct {
	store Store[TTx]
	with  complete.Completer
	tel   *telemetry.Outbox
}

// New returns an outbox that writes to the database of s.
func New[TTx any](s Store[TTx], o *Options) *Outbox[TTx] {
	if o == nil {
		o = &Options{}
	}
	return &Outbox[TTx]{
		store: s, with: complete.Completer{Now: o.Now, NewID: o.NewID, Codec: o.Codec},
		tel: telemetry.NewOutbox(telemetry.Providers{Meter: o.MeterProvider}),
	}
}

// ErrOtherTransaction is returned by Write in a handler, if tx is not the handler's transaction.
var ErrOtherTransaction = errors.New("not the handler's transaction")

// OtherTransaction returns a context with which a handler can write in another transaction than its own. The
// written messages depend only on that transaction. If the handler fails, or its message is delivered again,
// the relay publishes them anyway, once for each attempt.
func OtherTransaction(ctx context.Context) context.Context {
	return lending.With(ctx, lending.Loan{})
}

// checkTransaction returns an error if ctx belongs to a handler and tx is not the transaction of that
// handler.
func checkTransaction(ctx context.Context, tx any) error {
	l, ok := lending.In(ctx)
	if !ok || l.Is(tx) {
		return nil
	}
	return fmt.Errorf("%w: this one is %s, the one of %s is %s; write in the handler's transaction, so that the message "+
		"and your writes commit together, or call outbox.OtherTransaction(ctx) if you mean the other", ErrOtherTransaction,
		l.NameOf(tx), l.By(), l.NameOf(l.Tx))
}

// Write inserts drafts into the outbox within tx, in order. It never commits. If ctx belongs to a handler,
// the messages get the correlation ID of the handled message, and its ID as their causation ID. The trace of
// ctx continues in the messages.
//
// In a handler, tx must be the handler's transaction or a savepoint in it. Otherwise Write returns
// ErrOtherTransaction, unless ctx comes from OtherTransaction.
//
// A draft with an ID is written once. If you do not know whether a transaction was committed, repeat the
// whole transaction. If the same message was committed with this ID before, Write skips the draft and returns
// nil. If an open transaction has written with this ID, Write waits for it. Write returns ErrOtherMessage if
// another message was written with this ID. It returns ErrForgotten if the ID is older than the retention of
// marks (30 days). An ID costs a round trip to the database.
//
// Write fails if a value cannot be encoded or exceeds a limit (*store.LimitError). Then roll tx back. The
// limits are 900 KiB of data, 16 KiB of headers, 1 KiB of key, and topics that match [A-Za-z0-9._-]{1,249}.
func (o *Outbox[TTx]) Write(ctx context.Context, tx TTx, drafts ...skald.Draft) error {
	if len(drafts) == 0 {
		return nil
	}
	if err := checkTransaction(ctx, tx); err != nil {
		return fmt.Errorf("write to outbox: %w", err)
	}
	rows, err := o.with.Messages(ctx, drafts)
	if err != nil {
		return fmt.Errorf("write to outbox: %w", err)
	}
	if l, _ := lending.In(ctx); l.Record != nil {
		if err := l.Record(rows); err != nil {
			return fmt.Errorf("write to outbox: %w", err)
		}
		return nil
	}
	if rows, err = o.unwritten(ctx, tx, drafts, rows); err != nil {
		return fmt.Errorf("write to outbox: %w", err)
	}
	if len(rows) == 0 {
		return nil
	}
	if err := o.store.Write(ctx, tx, store.Effect{Rows: rows}); err != nil {
		return fmt.Errorf("write to outbox: %w", err)
	}
	o.tel.Wrote(ctx, rows)
	return nil
}
