// Package order is the service for customers. It takes orders over HTTP, receives the results of Payment,
// Inventory and Fulfilment, and publishes whether an order is confirmed or cancelled.
package order

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/journal"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
)

var (
	//go:embed sql/schema.sql
	schema string
	//go:embed sql/query
	queries embed.FS
)

// ErrUnknown rejects an event about an order that this service does not have.
var ErrUnknown = errors.New("no such order")

// Options of an Order service. The zero value works.
type Options struct {
	Outbox *outbox.Options  // default: the outbox's
	Now    func() time.Time // default time.Now
	NewID  func() string    // for orders; default: 26 random letters and digits
	// Prices has prices in cents by SKU, for SKUs without a price. Default none.
	Prices map[string]int64
	Saga   saga.EngineOptions // for the orchestrated style; default: the engine's
	Seen   once.Cache         // caches answers over HTTP; default none
	Logger *slog.Logger       // for failed requests; default slog.Default
	Where  http.Handler       // GET /{id} returns the status of an order's saga; default none
}

// Order service.
type Order[TTx any] struct {
	home    table.Home[TTx]
	events  *event.Events
	out     *outbox.Outbox[TTx]
	journal *journal.Journal[TTx]
	sql     map[string]string
	saga    *process[TTx] // nil in the choreographed style
	o       Options
}

// New returns the Order service at home.
func New[TTx any](home table.Home[TTx], events *event.Events, o *Options) (*Order[TTx], error) {
	s := &Order[TTx]{home: home, events: events}
	if o != nil {
		s.o = *o
	}
	if s.o.Now == nil {
		s.o.Now = time.Now
	}
	if s.o.NewID == nil {
		s.o.NewID = rand.Text
	}
	s.out = outbox.New(home.Store, s.o.Outbox)
	var err error
	if s.sql, err = table.Statements(queries); err != nil {
		return nil, err
	}
	if s.journal, err = journal.New(home, s.o.Now); err != nil {
		return s, err
	}
	if events.Style == event.Orchestrated {
		s.saga, err = s.orchestrate()
	}
	return s, err
}

// Prepare creates the tables, and adds missing prices.
func (s *Order[TTx]) Prepare(ctx context.Context) error {
	if err := s.journal.Prepare(ctx); err != nil {
		return err
	}
	if err := s.home.Make(ctx, schema); err != nil {
		return fmt.Errorf("create tables: %w", err)
	}
	return s.home.Begin(ctx, func(tx TTx) error {
		for _, sku := range slices.Sorted(maps.Keys(s.o.Prices)) {
			if _, err := s.home.DB(tx).Exec(ctx, s.sql["Price"], sku, s.o.Prices[sku]); err != nil {
				return fmt.Errorf("price %s: %w", sku, err)
			}
		}
		return nil
	})
}

// Listen registers the handlers of this service.
func (s *Order[TTx]) Listen(in *inbox.Inbox[TTx]) {
	for _, e := range []skald.Event[event.Verdict]{
		s.events.PaymentTaken, s.events.PaymentDeclined, s.events.PaymentRefunded,
		s.events.StockReserved, s.events.StockShort, s.events.StockReleased,
		s.events.ParcelShipped, s.events.ParcelFailed, s.events.ParcelStopped, s.events.ParcelGone,
	} {
		journal.On(in, s.journal, e, s.recordEvent)
	}
	for _, e := range []skald.Event[event.Change]{
		s.events.ChangePaid, s.events.ChangeDeclined, s.events.ChangeTaken, s.events.ChangeRefused,
		s.events.ChangeUndone,
	} {
		journal.On(in, s.journal, e, s.recordChange)
	}
}

// Entities returns none: hear locks the order's row.
func (s *Order[TTx]) Entities(skald.Message) []store.Lock { return nil }

// recordEvent records a fact about an order.
func (s *Order[TTx]) recordEvent(ctx context.Context, tx TTx, m skald.Received[event.Verdict]) error {
	db, id := s.home.DB(tx), m.Value.ID
	if s.saga != nil { // first: the saga's functions lock the saga before the order, too
		if _, err := s.saga.orders.Answer(ctx, tx, id, m.Message); err != nil {
			return err
		}
	}
	switch n, err := db.Exec(ctx, s.sql["RecordEvent"], id, m.Type); {
	case err != nil:
		return fmt.Errorf("record %s: %w", m.Type, err)
	case n == 0:
		return skald.Reject(fmt.Errorf("%s of %q: %w", m.Type, id, ErrUnknown))
	}
	if m.Type == event.ParcelStopped || m.Type == event.ParcelGone {
		if _, err := db.Exec(ctx, s.sql["AnswerCancellation"], id, m.Type); err != nil {
			return fmt.Errorf("record %s: %w", m.Type, err)
		}
	}
	return s.advance(ctx, tx, m.Value.Order)
}

// advance moves a locked order to the state that follows from its facts. When the facts are complete it
// ends the order and publishes the outcome.
func (s *Order[TTx]) advance(ctx context.Context, tx TTx, o event.Order) error {
	db, id := s.home.DB(tx), o.ID
	now, facts, err := s.facts(ctx, db, id)
	if err != nil {
		return err
	}
	states := next(now, facts)
	if s.saga != nil {
		states = slices.DeleteFunc(states, State.Ended) // only the saga ends an order
	}
	if len(states) == 0 {
		return nil
	}
	return s.move(ctx, tx, o, facts.reason(), states...)
}

// move records states of an order, and publishes the outcome if the last one is an end.
func (s *Order[TTx]) move(ctx context.Context, tx TTx, o event.Order, reason string, states ...State) error {
	db, id, last := s.home.DB(tx), o.ID, states[len(states)-1]
	if _, err := db.Exec(ctx, s.sql["Move"], id, string(last), reason); err != nil {
		return fmt.Errorf("change the state of the order: %w", err)
	}
	if err := s.remember(ctx, db, id, states...); err != nil {
		return err
	}
	switch v := (event.Verdict{Order: o, Reason: reason}); last {
	case Confirmed:
		return s.out.Write(ctx, tx, s.events.OrderConfirmed.New(id, v))
	case Cancelled:
		return s.out.Write(ctx, tx, s.events.OrderCancelled.New(id, v))
	}
	return nil
}

func (s *Order[TTx]) facts(ctx context.Context, db table.DB, id string) (now State, f Facts, err error) {
	err = table.All(ctx, db, s.sql["Facts"], []any{id}, func(row table.Row) error {
		var some bool
		var c ChangeFacts
		err := row.Scan((*string)(&now), &f.Taken, &f.Declined, &f.Refunded,
			&f.Reserved, &f.Short, &f.Released, &f.Shipped, &f.Failed, &f.Asked, &f.Stopped, &f.Gone,
			&some, &c.Paid, &c.Declined, &c.Taken, &c.Refused, &c.Undone)
		if some {
			f = f.with(c)
		}
		return err
	})
	if err == nil && now == "" {
		err = ErrUnknown
	}
	if err != nil {
		return "", f, fmt.Errorf("read the facts about the order: %w", err)
	}
	return now, f, nil
}

func (s *Order[TTx]) remember(ctx context.Context, db table.DB, id string, states ...State) error {
	for _, state := range states {
		if _, err := db.Exec(ctx, s.sql["Remember"], id, string(state), table.Time(s.o.Now())); err != nil {
			return fmt.Errorf("store the state %s: %w", state, err)
		}
	}
	return nil
}
