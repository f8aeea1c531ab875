// Package outbox writes messages inside the caller's transaction: they are published if, and only if, it
// commits.
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

// Store is the part of a database that an outbox needs; every store.Driver has it.
type Store[TTx any] interface {
	Write(ctx context.Context, tx TTx, es ...store.Effect) error
	Enter(ctx context.Context, tx TTx, in store.Intake) (store.Found, error)
	Secret(ctx context.Context) ([]byte, error)
}

// Options configures an Outbox. The zero value works.
type Options struct {
	Codec skald.Codec                // for drafts without a codec. Default JSON
	Now   func() time.Time           // the time of messages. Default time.Now
	NewID func(now time.Time) string // default: UUIDs of version 7

	MeterProvider metric.MeterProvider // of metrics of written messages. Default OpenTelemetry's global one
}

// Outbox writes messages to the outbox table. It is safe for concurrent use.
type Outbox[TTx any] struct {
	store Store[TTx]
	with  complete.Completer
	tel   *telemetry.Outbox
}

// New returns an outbox in the database of s.
func New[TTx any](s Store[TTx], o *Options) *Outbox[TTx] {
	if o == nil {
		o = &Options{}
	}
	return &Outbox[TTx]{
		store: s, with: complete.Completer{Now: o.Now, NewID: o.NewID, Codec: o.Codec},
		tel: telemetry.NewOutbox(telemetry.Providers{Meter: o.MeterProvider}),
	}
}

// ErrOtherTransaction is the error of a Write in a handler, in a transaction that is not the handler's.
var ErrOtherTransaction = errors.New("not the handler's transaction")

// OtherTransaction returns a context for a Write in a handler, in a transaction that is not the handler's.
// The written messages depend only on that other transaction. If the handler fails or its message is
// delivered again, they are published anyway, once for each attempt.
func OtherTransaction(ctx context.Context) context.Context {
	return lending.With(ctx, lending.Loan{})
}

// checkTransaction returns an error if ctx is a handler's and tx is not the transaction of that handler.
func checkTransaction(ctx context.Context, tx any) error {
	l, ok := lending.In(ctx)
	if !ok || l.Is(tx) {
		return nil
	}
	return fmt.Errorf("%w: this one is %s, the one of %s is %s; write in the handler's transaction, so that the message "+
		"and your writes commit together, or call outbox.OtherTransaction(ctx) if you mean the other", ErrOtherTransaction,
		l.NameOf(tx), l.By(), l.NameOf(l.Tx))
}

// Write inserts drafts into the outbox within tx, in order. It never commits. With a handler's ctx the
// messages get the correlation ID of the handled message, and name that message as their cause. They belong
// to the trace of ctx.
//
// In a handler, tx must be the handler's transaction or a savepoint in it. Otherwise Write returns
// ErrOtherTransaction, unless ctx comes from OtherTransaction.
//
// A draft with an ID is written once: if you do not know whether the transaction was committed, repeat all of
// it. If the same message was committed under the ID before, Write skips the draft and returns nil. It waits
// for an open transaction that has written under the ID. It returns ErrOtherMessage if another message was
// written under the ID. It returns ErrForgotten if the ID is older than the retention of marks (30 days). An
// ID costs a round trip.
//
// Write fails if a value cannot be encoded or exceeds a limit (*store.LimitError); then roll tx back. Limits:
// data 900 KiB, headers 16 KiB, topic [A-Za-z0-9._-]{1,249}, key 1 KiB.
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
