package payment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/gateway"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/inbox"
)

const (
	// patience is how long the gateway may take to answer.
	patience = time.Second
	// memory is how long it knows a key again; a little less than it says, for clocks differ.
	memory = 23 * time.Hour
)

type outcome = inbox.Outcome[gateway.Receipt]

// charge has the gateway take an order's money. That it does so once is the key's doing, and the step's that it is written down
// once, and never behind its refund: nothing here would stop that.
func (s *Payment[TTx]) charge() inbox.Call[TTx, event.Order, gateway.Move, gateway.Receipt] {
	return inbox.Call[TTx, event.Order, gateway.Move, gateway.Receipt]{
		At: s.bank, Memory: memory,
		Intent: func(_ context.Context, _ TTx, m skald.Received[event.Order]) (gateway.Move, string, error) {
			return move(m.Value), "charge-" + m.Value.ID, nil
		},
		Do:     asking(s.o.Gateway.Charge),
		LookUp: s.lookUp,
		Cancel: func(ctx context.Context, _ gateway.Move, key string) (gateway.Receipt, bool, error) {
			return s.o.Gateway.Cancel(ctx, key)
		},
		Settle: func(ctx context.Context, tx TTx, m skald.Received[event.Order], o outcome) error {
			if o.Refused {
				return s.decline(m.Value, errors.New(o.Reason))
			}
			return s.take(ctx, tx, m)
		},
	}
}

// refund has the gateway give an order's money back. It is asked for only where money was taken: else the step is barred, and a charge
// that comes late is not made.
func (s *Payment[TTx]) refund() inbox.Call[TTx, event.Verdict, gateway.Move, gateway.Receipt] {
	return inbox.Call[TTx, event.Verdict, gateway.Move, gateway.Receipt]{
		At: s.bank, Memory: memory,
		Intent: func(_ context.Context, _ TTx, m skald.Received[event.Verdict]) (gateway.Move, string, error) {
			return move(m.Value.Order), "refund-" + m.Value.ID, nil
		},
		Do:     asking(s.o.Gateway.Refund),
		LookUp: s.lookUp,
		Settle: func(ctx context.Context, tx TTx, m skald.Received[event.Verdict], o outcome) error {
			if o.Refused {
				return skald.Permanent(fmt.Errorf("the gateway does not give the money of order %s back: %s", m.Value.ID, o.Reason))
			}
			return s.giveBack(ctx, tx, m)
		},
	}
}

func move(o event.Order) gateway.Move {
	return gateway.Move{Customer: o.Customer, Order: o.ID, Cents: o.Cents}
}

// asking says in Skald's words what the gateway answers.
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

// lookUp asks the gateway's ledger, which knows what its memory of keys has forgotten.
func (s *Payment[TTx]) lookUp(ctx context.Context, _ gateway.Move, key string) (gateway.Receipt, bool, error) {
	return s.o.Gateway.Find(ctx, key)
}

// take writes down that the gateway has charged the customer.
func (s *Payment[TTx]) take(ctx context.Context, tx TTx, m skald.Received[event.Order]) error {
	db, order := s.home.DB(tx), m.Value
	if err := s.journal.Note(ctx, tx, m.Message); err != nil {
		return err
	}
	if err := s.paid(ctx, db, order.ID); err != nil {
		return err
	}
	if _, err := db.Exec(ctx, s.sql["Withdraw"], order.Customer, order.Cents); err != nil {
		return fmt.Errorf("withdraw: %w", err)
	}
	if err := s.transfer(ctx, db, gateway.Charge, order.ID, order.Customer, shop, order.Cents); err != nil {
		return err
	}
	return s.out.Write(ctx, tx, s.events.PaymentTaken.New(order.ID, event.Verdict{Order: order}))
}

// paid notes for builds that know no steps that the order is paid.
func (s *Payment[TTx]) paid(ctx context.Context, db table.DB, order string) error {
	var state string
	var asked int64
	err := db.QueryRow(ctx, s.sql["State"], order, taken).Scan(&state, &asked)
	switch {
	case err != nil:
		return fmt.Errorf("note the payment: %w", err)
	case state == barred: // by such a build, in the midst of the call: this is for somebody to look into
		return skald.Permanent(ErrLate)
	}
	return nil
}

// barred says of a charge that comes behind its refund that it is not made.
func (s *Payment[TTx]) barred(m skald.Received[event.Order]) []skald.Draft {
	return []skald.Draft{s.events.PaymentDeclined.New(m.Value.ID, event.Verdict{Order: m.Value, Reason: ErrBarred.Error()})}
}

// decline undoes what was begun, and says so.
func (s *Payment[TTx]) decline(order event.Order, why error) error {
	return skald.Reject(why, s.events.PaymentDeclined.New(order.ID, event.Verdict{Order: order, Reason: why.Error()}))
}

// giveBack writes down that the gateway has given the money back.
func (s *Payment[TTx]) giveBack(ctx context.Context, tx TTx, m skald.Received[event.Verdict]) error {
	db, order := s.home.DB(tx), m.Value.Order
	if err := s.journal.Note(ctx, tx, m.Message); err != nil {
		return err
	}
	switch n, err := db.Exec(ctx, s.sql["Refunded"], order.ID); {
	case err != nil:
		return fmt.Errorf("note the refund: %w", err)
	case n == 0: // given back by a build that knows no steps
		return nil
	}
	if _, err := db.Exec(ctx, s.sql["Deposit"], order.Customer, order.Cents); err != nil {
		return fmt.Errorf("deposit: %w", err)
	}
	if err := s.transfer(ctx, db, gateway.Refund, order.ID, shop, order.Customer, order.Cents); err != nil {
		return err
	}
	return s.out.Write(ctx, tx, s.events.PaymentRefunded.New(order.ID, m.Value))
}
