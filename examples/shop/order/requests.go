package order

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/table"
)

// ErrTooLate refuses a request about an order that has ended or is being cancelled.
var ErrTooLate = errors.New("the order has ended, or is being cancelled")

// fee is the price of each change of address: 2.50.
const fee = 250

// Changed is a change of address that a customer requested.
type Changed struct {
	Address string `json:"address"`
	Cents   int64  `json:"cents"`  // the fee, if it is taken
	Answer  string `json:"answer"` // asked, taken, refused, or declined (could not be paid)
}

// Cancel requests the cancellation of an order. A row at Fulfilment decides whether it comes before the
// parcel leaves. A repeat has no effect (fresh is false).
func (s *Order[TTx]) Cancel(ctx context.Context, id string) (fresh bool, err error) {
	err = s.withOrder(ctx, id, s.cancelSaga, func(tx TTx, o Summary) error {
		n, err := s.home.DB(tx).Exec(ctx, s.sql["AskToCancel"], id, table.Time(s.o.Now()))
		switch fresh = n == 1; {
		case err != nil || !fresh:
			return err
		case o.State.Ended():
			return ErrTooLate // the transaction rolls back
		}
		return s.out.Write(ctx, tx, s.events.CancelAsked.New(id, event.Verdict{Order: o.Order}))
	})
	if err != nil {
		return false, fmt.Errorf("cancel order: %w", err)
	}
	return fresh, nil
}

// Change requests that an order be sent to another address, for a fee. A repeat with the same address has
// no effect (fresh is false).
func (s *Order[TTx]) Change(ctx context.Context, id, address string) (fresh bool, err error) {
	err = s.withOrder(ctx, id, nil, func(tx TTx, o Summary) error {
		db := s.home.DB(tx)
		var number int64
		var last, cancelled string
		err := db.QueryRow(ctx, s.sql["LastChange"], id).Scan(&number, &last)
		switch none := errors.Is(err, sql.ErrNoRows); {
		case err != nil && !none:
			return err
		case !none && last == address:
			return nil
		}
		err = db.QueryRow(ctx, s.sql["Cancellation"], id).Scan(&cancelled)
		switch {
		case err == nil, o.State == Cancelling, o.State.Ended():
			return ErrTooLate
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		fresh = true
		if _, err := db.Exec(ctx, s.sql["AskToChange"], id, number+1, address, int64(fee)); err != nil {
			return err
		}
		return s.out.Write(ctx, tx, s.events.ChangeAsked.New(id,
			event.Change{Order: o.Order, Number: number + 1, Address: address, Fee: fee}))
	})
	if err != nil {
		return false, fmt.Errorf("change order: %w", err)
	}
	return fresh, nil
}

// withOrder runs do in a transaction that has locked the order. first runs before the lock, in the same
// transaction.
func (s *Order[TTx]) withOrder(ctx context.Context, id string,
	first func(ctx context.Context, tx TTx, id string) error,
	do func(tx TTx, o Summary) error,
) error {
	return s.home.Begin(ctx, func(tx TTx) error {
		if first != nil {
			if err := first(ctx, tx, id); err != nil {
				return err
			}
		}
		db := s.home.DB(tx)
		if _, err := db.Exec(ctx, s.sql["Lock"], id); err != nil {
			return err
		}
		o, err := s.find(ctx, db, id)
		if err != nil {
			return err
		}
		return do(tx, o)
	})
}

// recordChange records a result of Payment or Fulfilment about a change. The order may have waited for it to
// end.
func (s *Order[TTx]) recordChange(ctx context.Context, tx TTx, m skald.Received[event.Change]) error {
	db, c := s.home.DB(tx), m.Value
	if _, err := db.Exec(ctx, s.sql["Lock"], c.ID); err != nil {
		return fmt.Errorf("lock order: %w", err)
	}
	switch n, err := db.Exec(ctx, s.sql["RecordChange"], c.ID, c.Number, m.Type); {
	case err != nil:
		return fmt.Errorf("record %s: %w", m.Type, err)
	case n == 0:
		return skald.Reject(fmt.Errorf("%s %d of %q: %w", m.Type, c.Number, c.ID, ErrUnknown))
	}
	return s.advance(ctx, tx, c.Order)
}

// addRequests adds the customer's requests and their answers to a status.
func (s *Order[TTx]) addRequests(ctx context.Context, out *Status) error {
	err := s.home.Read.QueryRow(ctx, s.sql["Cancellation"], out.ID).Scan(&out.Cancellation)
	switch {
	case err == nil && out.Cancellation == "":
		out.Cancellation = "asked"
	case err == nil:
	case !errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("cancellation of order: %w", err)
	}
	err = table.All(ctx, s.home.Read, s.sql["Changes"], []any{out.ID}, func(row table.Row) error {
		var c Changed
		var f ChangeFacts
		err := row.Scan(&c.Address, &c.Cents, &f.Paid, &f.Declined, &f.Taken, &f.Refused, &f.Undone)
		c.Answer = f.answer()
		out.Changes = append(out.Changes, c)
		return err
	})
	if err != nil {
		return fmt.Errorf("changes of order: %w", err)
	}
	return nil
}
