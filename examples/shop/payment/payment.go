// Package payment is the service that takes money from customers' accounts, and gives it back when an order fails
// behind it. Its accounts are a double-entry ledger of its own.
package payment

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/journal"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/store"
)

var (
	//go:embed sql/schema.sql
	schema string
	//go:embed sql/query
	queries embed.FS
)

var (
	// ErrMoney is the verdict on an order that its customer's account cannot pay.
	ErrMoney = errors.New("not enough money")
	// ErrBarred is the verdict on an order whose payment was undone before it came.
	ErrBarred = errors.New("the order was given up before it was paid")
)

// The accounts that are nobody's.
const (
	shop = "shop"
	bank = "bank"
)

// What became of a payment.
const (
	taken  = "taken"
	barred = "barred"
)

// Options of a Payment service. The zero value works.
type Options struct {
	Outbox   *outbox.Options  // default: as it says
	Now      func() time.Time // default time.Now
	NewID    func() string    // of a transfer. Default: 26 random letters and digits
	Accounts map[string]int64 // customers and the cents that they begin with, where they have no account yet. Default none
}

// A Payment service.
type Payment[TTx any] struct {
	home    table.Home[TTx]
	events  *event.Events
	out     *outbox.Outbox[TTx]
	journal *journal.Journal[TTx]
	sql     map[string]string
	o       Options
}

// New is the Payment service at home.
func New[TTx any](home table.Home[TTx], events *event.Events, o *Options) (*Payment[TTx], error) {
	s := &Payment[TTx]{home: home, events: events}
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
	s.journal, err = journal.New(home, s.o.Now)
	return s, err
}

// Prepare makes the tables, and opens the accounts that are missing.
func (s *Payment[TTx]) Prepare(ctx context.Context) error {
	if err := s.journal.Prepare(ctx); err != nil {
		return err
	}
	if err := s.home.Make(ctx, schema); err != nil {
		return fmt.Errorf("make tables: %w", err)
	}
	return s.home.Begin(ctx, func(tx TTx) error {
		for _, customer := range slices.Sorted(maps.Keys(s.o.Accounts)) {
			if err := s.open(ctx, s.home.DB(tx), customer, s.o.Accounts[customer]); err != nil {
				return fmt.Errorf("open account %s: %w", customer, err)
			}
		}
		return nil
	})
}

func (s *Payment[TTx]) open(ctx context.Context, db table.DB, customer string, cents int64) error {
	if n, err := db.Exec(ctx, s.sql["OpenAccount"], customer, cents); err != nil || n == 0 {
		return err
	}
	return s.transfer(ctx, db, "deposit", "", bank, customer, cents)
}

// Listen tells in what this service handles.
func (s *Payment[TTx]) Listen(in *inbox.Inbox[TTx]) {
	journal.On(in, s.journal, s.events.OrderPlaced, s.take)
	journal.On(in, s.journal, s.events.StockShort, s.giveBack)
	journal.On(in, s.journal, s.events.ParcelFailed, s.giveBack)
	journal.On(in, s.journal, s.events.ParcelStopped, s.giveBack)
}

// Entities is the customer's account: a "no" stands only if the account is still as it was.
func (s *Payment[TTx]) Entities(m skald.Message) []store.Lock {
	v, err := s.events.OrderPlaced.Decode(context.Background(), m)
	if err != nil {
		return nil // the handler tells
	}
	return []store.Lock{{Space: "account", Key: v.Value.Customer}}
}

// take charges the customer. That it does so once is the mark's doing: nothing here would stop a second time.
func (s *Payment[TTx]) take(ctx context.Context, tx TTx, m skald.Received[event.Order]) error {
	db, order := s.home.DB(tx), m.Value
	state, err := s.state(ctx, db, order.ID, taken)
	if err != nil {
		return err
	}
	if state == barred {
		return s.decline(order, ErrBarred)
	}
	switch n, err := db.Exec(ctx, s.sql["Withdraw"], order.Customer, order.Cents); {
	case err != nil:
		return fmt.Errorf("withdraw: %w", err)
	case n == 0:
		return s.decline(order, ErrMoney)
	}
	if err := s.transfer(ctx, db, "charge", order.ID, order.Customer, shop, order.Cents); err != nil {
		return err
	}
	return s.out.Write(ctx, tx, s.events.PaymentTaken.New(order.ID, event.Verdict{Order: order}))
}

// decline undoes what take began, the row of the payment too, and says so.
func (s *Payment[TTx]) decline(order event.Order, why error) error {
	return skald.Reject(why, s.events.PaymentDeclined.New(order.ID, event.Verdict{Order: order, Reason: why.Error()}))
}

// giveBack undoes take. It asks what take did: where nothing was taken nothing is given back, and a
// payment that should come late is barred.
func (s *Payment[TTx]) giveBack(ctx context.Context, tx TTx, m skald.Received[event.Verdict]) error {
	db, order := s.home.DB(tx), m.Value.Order
	state, err := s.state(ctx, db, order.ID, barred)
	if err != nil || state != taken {
		return err
	}
	if _, err := db.Exec(ctx, s.sql["Refunded"], order.ID); err != nil {
		return fmt.Errorf("mark as refunded: %w", err)
	}
	if _, err := db.Exec(ctx, s.sql["Deposit"], order.Customer, order.Cents); err != nil {
		return fmt.Errorf("deposit: %w", err)
	}
	if err := s.transfer(ctx, db, "refund", order.ID, shop, order.Customer, order.Cents); err != nil {
		return err
	}
	return s.out.Write(ctx, tx, s.events.PaymentRefunded.New(order.ID, m.Value))
}

// state is what became of an order's payment; if nothing yet, it is first from now on.
func (s *Payment[TTx]) state(ctx context.Context, db table.DB, order, first string) (state string, err error) {
	if err := db.QueryRow(ctx, s.sql["State"], order, first).Scan(&state); err != nil {
		return "", fmt.Errorf("look at the payment: %w", err)
	}
	return state, nil
}

func (s *Payment[TTx]) transfer(ctx context.Context, db table.DB, kind, order, from, to string, cents int64) error {
	id := s.o.NewID()
	if _, err := db.Exec(ctx, s.sql["Transfer"], id, kind, order, cents, table.Time(s.o.Now())); err != nil {
		return fmt.Errorf("transfer: %w", err)
	}
	if _, err := db.Exec(ctx, s.sql["Entries"], id, from, to, cents); err != nil {
		return fmt.Errorf("write entries: %w", err)
	}
	return nil
}
