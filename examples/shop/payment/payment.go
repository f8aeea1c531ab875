// Package payment is the service that has money taken from customers, for an order and again for each change
// of it, and given back when the order or the change fails behind it. A gateway moves the money, outside of
// any transaction; what it answered is written into a double-entry ledger of our own.
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
	// ErrBarred is the verdict on an order whose payment was undone before it came.
	ErrBarred = errors.New("the order was given up before it was paid")
	// ErrLate: an order was charged though a build that knows no steps had given it up.
	ErrLate = errors.New("the gateway has charged an order that was given up meanwhile")
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

// card is how customers pay: the gateway takes nothing else.
const card = "card"

// Options of a Payment service. The zero value works.
type Options struct {
	Outbox *outbox.Options  // default: as it says
	Now    func() time.Time // default time.Now
	NewID  func() string    // of a transfer. Default: 26 random letters and digits
	// default: one that keeps its ledger in this service's database, and does what it is asked
	Gateway gateway.Gateway
	// instances of a build that knew no steps share the group, or did: what they took is asked for. Default
	// false
	Older bool
	// customers and the cents that they begin with, where they have no account yet. Default none
	Accounts map[string]int64
}

// A Payment service.
type Payment[TTx any] struct {
	home    table.Home[TTx]
	events  *event.Events
	out     *outbox.Outbox[TTx]
	journal *journal.Journal[TTx]
	own     *gateway.Ledger[TTx] // nil: the gateway is somebody else's
	bank    *call.Provider
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

// Prepare makes the tables, and opens the accounts that are missing.
func (s *Payment[TTx]) Prepare(ctx context.Context) error {
	if err := s.journal.Prepare(ctx); err != nil {
		return err
	}
	if err := s.home.Make(ctx, schema); err != nil {
		return fmt.Errorf("make tables: %w", err)
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

// Listen tells in what this service handles.
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
				return nil // it is said with the refund
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

// listenToChanges: a change that is refused is answered though nothing was charged for it yet, for nothing
// will be any more. So who comes late, and is barred, says nothing.
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
				return nil // it is said with the refund
			}
			return []skald.Draft{undone(m.Value)}
		}))
}

// Entities is the order's payment: what is to be asked of the gateway is stored only if nobody touched it
// meanwhile.
func (s *Payment[TTx]) Entities(m skald.Message) []store.Lock {
	return []store.Lock{{Space: "payment", Key: string(m.Key)}}
}

// takenBefore tells of a payment that was taken by a build that knew no steps, and tells such builds what
// becomes of it from now on. They knew no changes that cost anything.
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
		return false, fmt.Errorf("look at the payment: %w", err)
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
