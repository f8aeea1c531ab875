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

// ErrNotYet refuses a cancellation at the moment of placing: the customer should retry.
var ErrNotYet = errors.New("the order is being placed: retry in a moment")

// answerWait is the delay before the end of an order checks again for missing answers.
const answerWait = 100 * time.Millisecond

// process is the saga of orders and its engine.
type process[TTx any] struct {
	engine *saga.Engine[TTx]
	orders *saga.Sagas[TTx, event.Order]
}

// define returns the process of an order: its steps in order, and their undos.
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
		return nil, fmt.Errorf("%T does not support sagas: use another store, or the choreographed style",
			s.home.Store)
	}
	definition := s.define()
	engine, err := saga.NewEngine(db, &s.o.Saga, definition)
	return &process[TTx]{engine, saga.Bind(engine, definition)}, err
}

// Engine returns the engine of the orchestrated style; nil in the choreographed style.
func (s *Order[TTx]) Engine() *saga.Engine[TTx] {
	if s.saga == nil {
		return nil
	}
	return s.saga.engine
}

// accept does nothing: the order was written with the start of its saga. The step exists for its undo.
func (s *Order[TTx]) accept(context.Context, TTx, saga.Run[event.Order]) error { return nil }

// confirm ends an order whose parcel has left.
func (s *Order[TTx]) confirm(ctx context.Context, tx TTx, r saga.Run[event.Order]) error {
	return s.end(ctx, tx, r.In, Confirmed)
}

// cancel ends an order after everything else was undone.
func (s *Order[TTx]) cancel(ctx context.Context, tx TTx, r saga.Run[event.Order]) error {
	return s.end(ctx, tx, r.In, Cancelled)
}

// end moves an order to its end, once all requests of its customer are answered.
func (s *Order[TTx]) end(ctx context.Context, tx TTx, o event.Order, as State) error {
	db := s.home.DB(tx)
	if _, err := db.Exec(ctx, s.sql["Lock"], o.ID); err != nil {
		return fmt.Errorf("lock order: %w", err)
	}
	now, facts, err := s.facts(ctx, db, o.ID)
	switch {
	case err != nil:
		return err
	case facts.Changing || facts.Asked && !facts.Stopped && !facts.Gone || facts.Changed && as == Cancelled:
		return skald.RetryAfter(answerWait, errors.New("a request of the customer is not answered yet"))
	}
	reason := ""
	if as == Cancelled {
		if reason = facts.reason(); !facts.Stopped && !facts.Declined && !facts.Short && !facts.Failed {
			reason = GivenUp
		}
	}
	return s.move(ctx, tx, o, reason, append(slices.DeleteFunc(next(now, facts), State.Ended), as)...)
}

// cancelSaga cancels the saga of an order. If that is too late, Fulfilment answers so.
func (s *Order[TTx]) cancelSaga(ctx context.Context, tx TTx, id string) error {
	if s.saga == nil {
		return nil
	}
	came, err := s.saga.orders.Cancel(ctx, tx, id, ByCustomer)
	none := (*saga.NoSagaError)(nil)
	switch {
	case errors.As(err, &none):
		return ErrNotFound
	case came == saga.NothingToUndo:
		return ErrNotYet
	}
	return err
}
