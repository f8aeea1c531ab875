// Package outbox writes messages inside the caller's transaction: they are sent if, and only if, it commits.
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

// Store is what an outbox needs of a database; every store.Driver has it.
type Store[TTx any] interface {
	Write(ctx context.Context, tx TTx, es ...store.Effect) error
	Enter(ctx context.Context, tx TTx, in store.Intake) (store.Found, error)
	Secret(ctx context.Context) ([]byte, error)
}

// Options of an Outbox. The zero value works.
type Options struct {
	Codec skald.Codec                // for drafts without one. Default JSON
	Now   func() time.Time           // stamps messages. Default time.Now
	NewID func(now time.Time) string // default: UUIDs of version 7

	MeterProvider metric.MeterProvider // counts what is written. Default OpenTelemetry's global one
}

// An Outbox is safe for concurrent use.
type Outbox[TTx any] struct {
	store Store[TTx]
	with  complete.Completer
	tel   *telemetry.Outbox
}

// New is an outbox in the database of s.
func New[TTx any](s Store[TTx], o *Options) *Outbox[TTx] {
	if o == nil {
		o = &Options{}
	}
	return &Outbox[TTx]{
		store: s, with: complete.Completer{Now: o.Now, NewID: o.NewID, Codec: o.Codec},
		tel: telemetry.NewOutbox(telemetry.Providers{Meter: o.MeterProvider}),
	}
}

// ErrOtherTransaction is the failure of a Write in a handler, in a transaction that is not the handler's.
var ErrOtherTransaction = errors.New("not the handler's transaction")

// OtherTransaction returns a context under which a handler may write to an outbox in a transaction that is
// not the one lent to it. What it writes there stands or falls with that other transaction: the message may
// fail, or come again, and it stands all the same, once for each time.
func OtherTransaction(ctx context.Context) context.Context {
	return lending.With(ctx, lending.Loan{})
}

// lent tells whether tx may be written in: outside of a handler any, in a handler the one that it was lent.
func lent(ctx context.Context, tx any) error {
	l, ok := lending.In(ctx)
	if !ok || l.Is(tx) {
		return nil
	}
	return fmt.Errorf("%w: this one is %s, the one lent by %s is %s; write in that one, so that the message and what you write stand or "+
		"fall together, or say outbox.OtherTransaction(ctx) if you mean the other", ErrOtherTransaction,
		l.NameOf(tx), l.By(), l.NameOf(l.Tx))
}

// Write says drafts in tx, in order. It never commits. In a handler's transaction the messages carry the
// correlation of the message in hand and name it as their cause, if ctx is the handler's. They belong to the
// trace that ctx is in.
//
// In a handler, tx must be the transaction that the handler was lent, or one in it: else it is
// ErrOtherTransaction, unless ctx is that of OtherTransaction.
//
// A draft with an id is written once: repeat the whole transaction where you do not know whether it was
// committed. If the same message was committed under the id before, Write leaves the draft out and returns
// nil. It waits for an open transaction that has written under the id. ErrOtherMessage: another message was
// written under it. ErrForgotten: the id is older than marks are kept (30 days). The id costs a round trip.
//
// It fails, and tx should be rolled back, when a value cannot be encoded or breaks a limit
// (*store.LimitError): data 900 KiB, headers 16 KiB, topic [A-Za-z0-9._-]{1,249}, key 1 KiB.
func (o *Outbox[TTx]) Write(ctx context.Context, tx TTx, drafts ...skald.Draft) error {
	if len(drafts) == 0 {
		return nil
	}
	if err := lent(ctx, tx); err != nil {
		return fmt.Errorf("write to outbox: %w", err)
	}
	rows, err := o.with.Messages(ctx, drafts)
	if err != nil {
		return fmt.Errorf("write to outbox: %w", err)
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
