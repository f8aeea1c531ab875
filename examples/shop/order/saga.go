package order

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
)

// ErrNotYet is the answer to a customer who cancels an order in the moment in which it is placed: ask again.
var ErrNotYet = errors.New("the order is being placed: ask again in a moment")

// answerWait is how long the end of an order waits for an answer that it needs, before it looks again.
const answerWait = 100 * time.Millisecond

// process is the saga that takes orders through the shop, and the engine that runs it.
type process[TTx any] struct {
	engine *saga.Engine[TTx]
	orders *saga.Sagas[TTx, event.Order]
}

// define is the whole process of an order: what is done, in this order, and how each of it is undone.
func (s *Order[TTx]) define() *saga.Definition[event.Order] {
	order := func(r saga.Run[event.Order]) event.Order { return r.In }
	bare := func(r saga.Run[event.Order]) event.Verdict { return event.Verdict{Order: r.In} }
	reason := func(v event.Verdict) string { return v.Reason }
	e := s.events

	accept := saga.Exec("accept", s.accept, s.cancel, saga.Retry(saga.Policy{Attempts: -1}))
	charge := saga.Command("charge", e.ChargePayment, order,
		saga.Reply(e.PaymentTaken, saga.RefusedBy(e.PaymentDeclined, reason)),
		saga.UndoBy(e.RefundPayment, bare, saga.Reply(e.PaymentRefunded)))
	reserve := saga.Command("reserve", e.ReserveStock, bare,
		saga.Reply(e.StockReserved, saga.RefusedBy(e.StockShort, reason)),
		saga.UndoBy(e.ReleaseStock, bare, saga.Reply(e.StockReleased)))
	ship := saga.Command("ship", e.ShipParcel, bare,
		saga.Reply(e.ParcelShipped, saga.RefusedBy(e.ParcelFailed, reason),
			saga.RefusedBy(e.ParcelStopped, reason)),
		saga.Pivot())
	confirm := saga.Exec("confirm", s.confirm, nil)

	return saga.New("order", &saga.Options[event.Order]{Key: func(o event.Order) string { return o.ID }},
		accept, charge, reserve, ship, confirm)
}

func (s *Order[TTx]) orchestrate() (*process[TTx], error) {
	db, ok := s.home.Store.(interface {
		store.Driver[TTx]
		store.Sagas[TTx]
	})
	if !ok {
		return nil, fmt.Errorf("%T keeps no sagas: take another store, or the choreographed style",
			s.home.Store)
	}
	definition := s.define()
	engine, err := saga.NewEngine(db, &s.o.Saga, definition)
	return &process[TTx]{engine, saga.Bind(engine, definition)}, err
}

// Engine runs the sagas of the orchestrated style; nil in the other.
func (s *Order[TTx]) Engine() *saga.Engine[TTx] {
	if s.saga == nil {
		return nil
	}
	return s.saga.engine
}

// accept does nothing: the order was written with the start of its saga. It is there for its undo.
func (s *Order[TTx]) accept(context.Context, TTx, saga.Run[event.Order]) error { return nil }

// confirm ends an order whose parcel has left.
func (s *Order[TTx]) confirm(ctx context.Context, tx TTx, r saga.Run[event.Order]) error {
	return s.end(ctx, tx, r.In, Confirmed)
}

// cancel ends an order of which all else is undone.
func (s *Order[TTx]) cancel(ctx context.Context, tx TTx, r saga.Run[event.Order]) error {
	return s.end(ctx, tx, r.In, Cancelled)
}

// end moves an order to its end, once its customer has an answer to each wish.
func (s *Order[TTx]) end(ctx context.Context, tx TTx, o event.Order, as State) error {
	db := s.home.DB(tx)
	if _, err := db.Exec(ctx, s.sql["Lock"], o.ID); err != nil {
		return fmt.Errorf("lock order: %w", err)
	}
	now, facts, err := s.heard(ctx, db, o.ID)
	switch {
	case err != nil:
		return err
	case facts.Changing || facts.Asked && !facts.Stopped && !facts.Gone || facts.Changed && as == Cancelled:
		return skald.RetryAfter(answerWait, errors.New("its customer waits for an answer"))
	}
	reason := ""
	if as == Cancelled {
		if reason = facts.reason(); !facts.Stopped && !facts.Declined && !facts.Short && !facts.Failed {
			reason = GivenUp
		}
	}
	return s.move(ctx, tx, o, reason, append(slices.DeleteFunc(next(now, facts), State.Ended), as)...)
}

// turnBack cancels the saga of an order. Where that is too late, Fulfilment says so.
func (s *Order[TTx]) turnBack(ctx context.Context, tx TTx, id string) error {
	if s.saga == nil {
		return nil
	}
	came, err := s.saga.orders.Cancel(ctx, tx, id, ByCustomer)
	none := (*saga.NoSagaError)(nil)
	switch {
	case errors.As(err, &none):
		return ErrNotFound
	case came == saga.Unbegun:
		return ErrNotYet
	}
	return err
}
