package fulfilment

import (
	"context"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/table"
)

// note records a request to send an order to another address. The parcel waits until the change is paid or
// declined.
func (s *Fulfilment[TTx]) note(ctx context.Context, tx TTx, m skald.Received[event.Change]) error {
	db, c := s.home.DB(tx), m.Value
	state, err := s.decide(ctx, db, c.ID, open)
	if err != nil {
		return err
	}
	switch n, err := db.Exec(ctx, s.sql["NoteChange"], c.ID, c.Number, c.Address, c.Fee); {
	case err != nil:
		return fmt.Errorf("note change %d: %w", c.Number, err)
	case n > 0 && (state == gone || state == stopped):
		return s.refuse(ctx, tx, c)
	}
	return nil // a change whose payment arrived first is answered already, and may have left with the parcel
}

// paid sends the parcel to the new address, if it has not left.
func (s *Fulfilment[TTx]) paid(ctx context.Context, tx TTx, m skald.Received[event.Change]) error {
	return s.resolve(ctx, tx, m.Value, s.take)
}

// unpaid refuses a change that Payment could not charge.
func (s *Fulfilment[TTx]) unpaid(ctx context.Context, tx TTx, m skald.Received[event.Change]) error {
	return s.resolve(ctx, tx, m.Value, s.refuse)
}

// resolve applies Payment's result to a change, or refuses the change if it is too late. A parcel that
// waited for the result then leaves.
func (s *Fulfilment[TTx]) resolve(ctx context.Context, tx TTx, c event.Change,
	do func(context.Context, TTx, event.Change) error) error {
	state, err := s.decide(ctx, s.home.DB(tx), c.ID, open)
	if err != nil {
		return err
	}
	if state == gone || state == stopped {
		return s.refuse(ctx, tx, c)
	}
	if err := do(ctx, tx, c); err != nil || state == open {
		return err
	}
	_, err = s.handOver(ctx, tx, c.Order)
	return err
}

// take changes the address of the parcel. The change cannot have been refused before: refusals need a
// closed order, or come from Payment.
func (s *Fulfilment[TTx]) take(ctx context.Context, tx TTx, c event.Change) error {
	db := s.home.DB(tx)
	if _, err := db.Exec(ctx, s.sql["TakeChange"], c.ID, c.Number, c.Address, c.Fee); err != nil {
		return fmt.Errorf("take change %d: %w", c.Number, err)
	}
	if _, err := db.Exec(ctx, s.sql["Readdress"], c.ID, c.Number, c.Address); err != nil {
		return fmt.Errorf("readdress parcel: %w", err)
	}
	return s.out.Write(ctx, tx, s.events.ChangeTaken.New(c.ID, c))
}

// refuse publishes, once, that a change is not made or no longer applies. Payment then refunds it, or never
// charges it.
func (s *Fulfilment[TTx]) refuse(ctx context.Context, tx TTx, c event.Change) error {
	switch n, err := s.home.DB(tx).Exec(ctx, s.sql["RefuseChange"], c.ID, c.Number, c.Address, c.Fee); {
	case err != nil:
		return fmt.Errorf("refuse change %d: %w", c.Number, err)
	case n == 0:
		return nil
	}
	return s.out.Write(ctx, tx, s.events.ChangeRefused.New(c.ID, c))
}

// giveUp handles the failure of an order before shipping.
func (s *Fulfilment[TTx]) giveUp(ctx context.Context, tx TTx, m skald.Received[event.Verdict]) error {
	if _, err := s.decide(ctx, s.home.DB(tx), m.Value.ID, stopped); err != nil {
		return err
	}
	return s.refuseAll(ctx, tx, m.Value.Order)
}

// refuseAll refuses the changes of an order that fails: unpaid ones, and those that were made.
func (s *Fulfilment[TTx]) refuseAll(ctx context.Context, tx TTx, order event.Order) error {
	var all []event.Change
	err := table.All(ctx, s.home.DB(tx), s.sql["ChangesToRefuse"], []any{order.ID},
		func(row table.Row) error {
			c := event.Change{Order: order}
			defer func() { all = append(all, c) }()
			return row.Scan(&c.Number, &c.Address, &c.Fee)
		})
	if err != nil {
		return fmt.Errorf("look for changes to refuse: %w", err)
	}
	for _, c := range all {
		if err := s.refuse(ctx, tx, c); err != nil {
			return err
		}
	}
	return nil
}
