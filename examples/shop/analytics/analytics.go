// Package analytics is the service that counts all events: a second group on every topic, which receives
// every event (fan-out).
package analytics

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/journal"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

var (
	//go:embed sql/schema.sql
	schema string
	//go:embed sql/query
	queries embed.FS
)

// Options of an Analytics service. The zero value works.
type Options struct {
	Now func() time.Time // default time.Now
}

// Analytics service.
type Analytics[TTx any] struct {
	home    table.Home[TTx]
	events  *event.Events
	journal *journal.Journal[TTx]
	sql     map[string]string
	now     func() time.Time
}

// New returns the Analytics service at home.
func New[TTx any](home table.Home[TTx], events *event.Events, o *Options) (*Analytics[TTx], error) {
	s := &Analytics[TTx]{home: home, events: events, now: time.Now}
	if o != nil && o.Now != nil {
		s.now = o.Now
	}
	var err error
	if s.sql, err = table.Statements(queries); err != nil {
		return nil, err
	}
	s.journal, err = journal.New(home, s.now)
	return s, err
}

// Prepare creates the tables.
func (s *Analytics[TTx]) Prepare(ctx context.Context) error {
	if err := s.journal.Prepare(ctx); err != nil {
		return err
	}
	if err := s.home.Make(ctx, schema); err != nil {
		return fmt.Errorf("make tables: %w", err)
	}
	return nil
}

// Listen registers a handler for every event.
func (s *Analytics[TTx]) Listen(in *inbox.Inbox[TTx]) {
	journal.On(in, s.journal, s.events.OrderPlaced,
		func(ctx context.Context, tx TTx, m skald.Received[event.Order]) error {
			return s.count(ctx, tx, m.Message, m.Value)
		})
	journal.On(in, s.journal, s.events.PaymentTaken,
		func(ctx context.Context, tx TTx, m skald.Received[event.Verdict]) error {
			if _, err := s.home.DB(tx).Exec(ctx, s.sql["PaymentMethod"], m.Value.ID,
				m.Value.Method); err != nil {
				return fmt.Errorf("note a payment method: %w", err)
			}
			return s.count(ctx, tx, m.Message, m.Value.Order)
		})
	for _, e := range []skald.Event[event.Verdict]{
		s.events.OrderConfirmed, s.events.OrderCancelled,
		s.events.PaymentDeclined, s.events.PaymentRefunded,
		s.events.StockReserved, s.events.StockShort, s.events.StockReleased,
		s.events.ParcelShipped, s.events.ParcelFailed, s.events.CancelAsked, s.events.ParcelStopped,
		s.events.ParcelGone,
	} {
		journal.On(in, s.journal, e,
			func(ctx context.Context, tx TTx, m skald.Received[event.Verdict]) error {
				return s.count(ctx, tx, m.Message, m.Value.Order)
			})
	}
	for _, e := range []skald.Event[event.Change]{
		s.events.ChangeAsked, s.events.ChangePaid, s.events.ChangeDeclined, s.events.ChangeTaken,
		s.events.ChangeRefused, s.events.ChangeUndone,
	} {
		journal.On(in, s.journal, e, func(ctx context.Context, tx TTx, m skald.Received[event.Change]) error {
			return s.count(ctx, tx, m.Message, m.Value.Order)
		})
	}
}

// Entities returns none: rows are only added.
func (s *Analytics[TTx]) Entities(skald.Message) []store.Lock { return nil }

func (s *Analytics[TTx]) count(ctx context.Context, tx TTx, m skald.Message, o event.Order) error {
	_, err := s.home.DB(tx).Exec(ctx, s.sql["Happening"], m.Type, o.ID, o.Cents, table.Time(s.now()))
	if err != nil {
		return fmt.Errorf("count %s: %w", m.Type, err)
	}
	return nil
}
