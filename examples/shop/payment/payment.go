// Package payment is the service that charges customers, for an order and for each change of it, and
// refunds them if the order or the change fails later. A gateway moves the money outside any transaction.
// This service records the moves in its own double-entry ledger.
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
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/gateway"
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
	// ErrBarred refuses an order whose payment was undone before it arrived.
	ErrBarred = errors.New("the order was given up before it was paid")
	// ErrLate means that an order was charged although a build without steps had given it up.
	ErrLate = errors.New("the gateway has charged an order that was given up meanwhile")
)

// Accounts that belong to no customer.
const (
	shop = "shop"
	bank = "bank"
)

// States of a payment.
const (
	taken  = "taken"
	barred = "barred"
)

// card is the payment method: the gateway accepts no other.
const card = "card"

// Options of a Payment service. The zero value works.
type Options struct {
	Outbox *outbox.Options  // default: the outbox's
	Now    func() time.Time // default time.Now
	NewID  func() string    // for transfers; default: 26 random letters and digits
	// Gateway moves the money. Default: a well-behaved one with its ledger in this service's database.
	Gateway gateway.Gateway
	// Older is true if instances of a build without steps share the group, or did: the service then checks
	// payments of such builds. Default false.
	Older bool
	// Accounts has customers and their initial cents, for customers without an account. Default none.
	Accounts map[string]int64
}

// Payment service.
type Payment[TTx any] struct {
	home    table.Home[TTx]
	events  *event.Events
	out     *outbox.Outbox[TTx]
	journal *journal.Journal[TTx]
	own     *gateway.Ledger[TTx] // nil: an external gateway
	bank    *call.Provider
	sql     map[string]string
	o       Options
}

// New returns the Payment service at home.
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
	s.bank = call.NewProvider("gateway", &call.ProviderOptions{Timeout: patience, Rest: patience})
	s.out = outbox.New(home.Store, s.o.Outbox)
	var err error
	if s.sql, err = table.Statements(queries); err != nil {
		return nil, err
	}
	if s.journal, err = journal.New(home, s.o.Now); err != nil || s.o.Gateway != nil {
		return s, err
	}
	s.own, err = gateway.NewLedger(home,
		&gateway.Options{Funds: s.o.Accounts, Now: s.o.Now, NewID: s.o.NewID})
	s.o.Gateway = s.own
	return s, err
}

// Prepare creates the tables, and opens missing accounts.
func (s *Payment[TTx]) Prepare(ctx context.Context) error {
	if err := s.journal.Prepare(ctx); err != nil {
		return err
	}
	if err := s.home.Make(ctx, schema); err != nil {
		return fmt.Errorf("create tables: %w", err)
	}
	if s.own != nil {
		if err := s.own.Prepare(ctx); err != nil {
			return err
		}
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

// Listen registers the handlers of this service.
func (s *Payment[TTx]) Listen(in *inbox.Inbox[TTx]) {
	s.listenToOrders(in)
	s.listenToChanges(in)
	if s.o.Older {
		in.LegacySteps(s.takenBefore)
	}
}

func (s *Payment[TTx]) listenToOrders(in *inbox.Inbox[TTx]) {
	taken := func(o event.Order) skald.Draft {
		return s.events.PaymentTaken.New(o.ID, event.Verdict{Order: o, Method: card})
	}
	declined := func(o event.Order, why string) skald.Draft {
		return s.events.PaymentDeclined.New(o.ID, event.Verdict{Order: o, Reason: why})
	}
	asked, givenUp := s.events.OrderPlaced,
		[]skald.Event[event.Verdict]{s.events.StockShort, s.events.ParcelFailed, s.events.ParcelStopped}
	var nothing func(skald.Received[event.Verdict], store.StepState) []skald.Draft
	refunded := func(v event.Verdict) skald.Draft { return s.events.PaymentRefunded.New(v.ID, v) }
	if s.events.Style == event.Orchestrated {
		asked, givenUp = s.events.ChargePayment, []skald.Event[event.Verdict]{s.events.RefundPayment}
		nothing = func(m skald.Received[event.Verdict], was store.StepState) []skald.Draft {
			if was == store.StepDone {
				return nil // the refund publishes it
			}
			// the saga waits for it
			return []skald.Draft{refunded(event.Verdict{Order: m.Value.Order, Reason: "nothing was charged"})}
		}
	}
	inbox.DoCallOn(step(in, ofOrder), asked, charge(s, ofOrder, taken, declined),
		inbox.IfBarred(func(m skald.Received[event.Order]) []skald.Draft {
			return []skald.Draft{declined(m.Value, ErrBarred.Error())}
		}))
	for _, e := range givenUp {
		inbox.UndoCallOn(step(in, ofVerdict), e, refund(s, ofVerdict, refunded), inbox.Reply(nothing))
	}
}

// listenToChanges registers the handlers of changes. A refused change gets an answer even if nothing was
// charged yet, because it never will be. So a charge that comes later is barred and publishes nothing.
func (s *Payment[TTx]) listenToChanges(in *inbox.Inbox[TTx]) {
	paid := func(c event.Change) skald.Draft { return s.events.ChangePaid.New(c.ID, c) }
	declined := func(c event.Change, why string) skald.Draft {
		c.Reason = why
		return s.events.ChangeDeclined.New(c.ID, c)
	}
	undone := func(c event.Change) skald.Draft { return s.events.ChangeUndone.New(c.ID, c) }
	change := step(in, ofChange)
	inbox.DoCallOn(change, s.events.ChangeAsked, charge(s, ofChange, paid, declined))
	inbox.UndoCallOn(change, s.events.ChangeRefused, refund(s, ofChange, undone),
		inbox.Reply(func(m skald.Received[event.Change], was store.StepState) []skald.Draft {
			if was == store.StepDone {
				return nil // the refund publishes it
			}
			return []skald.Draft{undone(m.Value)}
		}))
}

// Entities returns the order's payment. The call to the gateway is stored only if no other message has
// changed the payment meanwhile.
func (s *Payment[TTx]) Entities(m skald.Message) []store.Lock {
	return []store.Lock{{Space: "payment", Key: string(m.Key)}}
}

// takenBefore reports whether a build without steps took the payment, and records the new state for such
// builds. They had no changes with a fee.
func (s *Payment[TTx]) takenBefore(ctx context.Context, tx TTx, step inbox.StepID, undo bool) (bool, error) {
	if step.Occurrence != "" {
		return false, nil
	}
	var state string
	var asked int64
	first := taken
	if undo {
		first = barred
	}
	if err := s.home.DB(tx).QueryRow(ctx, s.sql["State"], step.Saga, first).Scan(&state, &asked); err != nil {
		return false, fmt.Errorf("read the payment: %w", err)
	}
	return state == taken && asked > 1, nil
}

func (s *Payment[TTx]) transfer(ctx context.Context, db table.DB, kind, order, from, to string,
	cents int64) error {
	id := s.o.NewID()
	if _, err := db.Exec(ctx, s.sql["Transfer"], id, kind, order, cents, table.Time(s.o.Now())); err != nil {
		return fmt.Errorf("transfer: %w", err)
	}
	if _, err := db.Exec(ctx, s.sql["Entries"], id, from, to, cents); err != nil {
		return fmt.Errorf("write entries: %w", err)
	}
	return nil
}
