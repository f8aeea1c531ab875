package payment

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/gateway"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/inbox"
)

const (
	// patience limits a call of the gateway.
	patience = time.Second
	// memory is how long the gateway remembers a key. It is a little less than the gateway promises,
	// because clocks differ.
	memory = 23 * time.Hour
)

type outcome = call.Outcome[gateway.Receipt]

// bill is one charge: for an order, or for one of its changes. Each is an occurrence of the step charge
// in the order's saga, with its own keys at the gateway. Each charge is undone separately.
type bill struct {
	order  event.Order
	change int64 // number of the change; 0 for the order
	cents  int64
}

func ofOrder(o event.Order) bill     { return bill{order: o, cents: o.Cents} }
func ofVerdict(v event.Verdict) bill { return ofOrder(v.Order) }
func ofChange(c event.Change) bill   { return bill{order: c.Order, change: c.Number, cents: c.Fee} }

// step returns the step that charges the bill of a message.
func step[TTx, T any](in *inbox.Inbox[TTx], of func(T) bill) *inbox.Step[TTx, T] {
	return inbox.NewStep(in, "charge", func(m skald.Received[T]) string { return of(m.Value).order.ID },
		inbox.Occurrence(func(m skald.Received[T]) string {
			if b := of(m.Value); b.change > 0 {
				return strconv.FormatInt(b.change, 10)
			}
			return ""
		}))
}

// key returns the gateway's key of an action for this bill.
func (b bill) key(act string) string {
	key := act + "-" + b.order.ID
	if b.change > 0 {
		key += "-" + strconv.FormatInt(b.change, 10)
	}
	return key
}

func (b bill) move() gateway.Move {
	return gateway.Move{Customer: b.order.Customer, Order: b.order.ID, Cents: b.cents}
}

// charge takes money through the gateway. The key makes the gateway do it once. The step makes this service
// record it once, and never after the refund; nothing else in this code prevents that.
func charge[TTx, T any](s *Payment[TTx], of func(T) bill, taken func(T) skald.Draft,
	declined func(v T, why string) skald.Draft) call.Call[TTx, T, gateway.Move, gateway.Receipt] {
	return call.Call[TTx, T, gateway.Move, gateway.Receipt]{
		At: s.bank, Memory: memory,
		Intent: func(_ context.Context, _ TTx, m skald.Received[T]) (gateway.Move, string, error) {
			return of(m.Value).move(), of(m.Value).key("charge"), nil
		},
		Do:     asking(s.o.Gateway.Charge),
		LookUp: s.lookUp,
		Cancel: func(ctx context.Context, _ gateway.Move, key string) (gateway.Receipt, bool, error) {
			return s.o.Gateway.Cancel(ctx, key)
		},
		Settle: func(ctx context.Context, tx TTx, m skald.Received[T], o outcome) error {
			if o.Refused { // rolls back this transaction, and publishes the refusal
				return skald.Reject(errors.New(o.Reason), declined(m.Value, o.Reason))
			}
			if err := s.take(ctx, tx, m.Message, of(m.Value)); err != nil {
				return err
			}
			return s.out.Write(ctx, tx, taken(m.Value))
		},
	}
}

// refund returns money through the gateway. It runs only if money was taken. Otherwise the step is barred,
// and a late charge is not made.
func refund[TTx, T any](s *Payment[TTx], of func(T) bill,
	undone func(T) skald.Draft) call.Call[TTx, T, gateway.Move, gateway.Receipt] {
	return call.Call[TTx, T, gateway.Move, gateway.Receipt]{
		At: s.bank, Memory: memory,
		Intent: func(_ context.Context, _ TTx, m skald.Received[T]) (gateway.Move, string, error) {
			return of(m.Value).move(), of(m.Value).key("refund"), nil
		},
		Do:     asking(s.o.Gateway.Refund),
		LookUp: s.lookUp,
		Settle: func(ctx context.Context, tx TTx, m skald.Received[T], o outcome) error {
			if o.Refused {
				return skald.Permanent(fmt.Errorf("the gateway refuses to refund order %s: %s",
					of(m.Value).order.ID, o.Reason))
			}
			if back, err := s.giveBack(ctx, tx, m.Message, of(m.Value)); err != nil || !back {
				return err
			}
			return s.out.Write(ctx, tx, undone(m.Value))
		},
	}
}

// asking translates the gateway's errors to Skald's.
func asking(ask func(ctx context.Context, key string, m gateway.Move) (gateway.Receipt, error),
) func(ctx context.Context, m gateway.Move, key string) (gateway.Receipt, error) {
	return func(ctx context.Context, m gateway.Move, key string) (gateway.Receipt, error) {
		r, err := ask(ctx, key, m)
		var no *gateway.RefusedError
		var busy *gateway.BusyError
		switch {
		case errors.As(err, &no):
			err = skald.Reject(errors.New(no.Reason))
		case errors.As(err, &busy):
			err = skald.RetryAfter(busy.After, err)
		case errors.Is(err, gateway.ErrOther), errors.Is(err, gateway.ErrInvalid):
			err = skald.Permanent(err)
		}
		return r, err
	}
}

// lookUp searches the gateway's ledger, which also has moves of forgotten keys.
func (s *Payment[TTx]) lookUp(ctx context.Context, _ gateway.Move,
	key string) (gateway.Receipt, bool, error) {
	return s.o.Gateway.Find(ctx, key)
}

// take records that the gateway has charged the customer.
func (s *Payment[TTx]) take(ctx context.Context, tx TTx, m skald.Message, b bill) error {
	db := s.home.DB(tx)
	if err := s.journal.Note(ctx, tx, m); err != nil {
		return err
	}
	if b.change == 0 {
		if err := s.paid(ctx, db, b.order.ID); err != nil {
			return err
		}
	}
	if _, err := db.Exec(ctx, s.sql["Withdraw"], b.order.Customer, b.cents); err != nil {
		return fmt.Errorf("withdraw: %w", err)
	}
	return s.transfer(ctx, db, gateway.Charge, b.order.ID, b.order.Customer, shop, b.cents)
}

// paid records the payment for builds without steps.
func (s *Payment[TTx]) paid(ctx context.Context, db table.DB, order string) error {
	var state string
	var asked int64
	err := db.QueryRow(ctx, s.sql["State"], order, taken).Scan(&state, &asked)
	switch {
	case err != nil:
		return fmt.Errorf("record the payment: %w", err)
	case state == barred: // by such a build, during the call: an operator has to decide
		return skald.Permanent(ErrLate)
	}
	return nil
}

// giveBack records that the gateway has refunded the money. back is false if a build without steps has done
// so.
func (s *Payment[TTx]) giveBack(ctx context.Context, tx TTx, m skald.Message, b bill) (back bool, err error) {
	db := s.home.DB(tx)
	if err := s.journal.Note(ctx, tx, m); err != nil {
		return false, err
	}
	if b.change == 0 {
		switch n, err := db.Exec(ctx, s.sql["Refunded"], b.order.ID); {
		case err != nil:
			return false, fmt.Errorf("record the refund: %w", err)
		case n == 0:
			return false, nil
		}
	}
	if _, err := db.Exec(ctx, s.sql["Deposit"], b.order.Customer, b.cents); err != nil {
		return false, fmt.Errorf("deposit: %w", err)
	}
	return true, s.transfer(ctx, db, gateway.Refund, b.order.ID, shop, b.order.Customer, b.cents)
}
