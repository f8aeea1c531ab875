package order

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/once"
)

var (
	// ErrOther means that an Idempotency-Key was used for another request.
	ErrOther = errors.New("this Idempotency-Key was used for another order")
	// ErrNotFound means that the order does not exist.
	ErrNotFound = errors.New("no such order")
)

// standardPrice is the price of a SKU without its own price: 10.00.
const standardPrice = 1000

// Request is a customer's order request.
type Request struct {
	Customer string `json:"customer"`
	Items    []Line `json:"items"`
}

// Line is a quantity of one SKU.
type Line struct {
	SKU      string `json:"sku"`
	Quantity int64  `json:"quantity"`
}

// Summary is a customer's view of an order.
type Summary struct {
	event.Order
	State  State  `json:"state"`
	Reason string `json:"reason"`
}

// Status is the state of an order, with its history.
type Status struct {
	ID      string   `json:"id"`
	State   State    `json:"state"`
	Reason  string   `json:"reason"`
	History []Moment `json:"history"`

	Cancellation string    `json:"cancellation,omitempty"` // asked, stopped or gone
	Changes      []Changed `json:"changes,omitempty"`
}

// Moment is the time when an order entered a state.
type Moment struct {
	State State  `json:"state"`
	At    string `json:"at"` // RFC 3339, UTC
}

// Place takes an order and publishes order.placed, in one transaction. A repeated request with the same key
// returns the existing order (fresh is false); another request returns ErrOther. HTTP has separate keys:
// see Handler.
func (s *Order[TTx]) Place(ctx context.Context, key string, r Request) (id string, fresh bool, err error) {
	id, again, err := once.Do(ctx, s.home.Store, "orders", key, r,
		func(ctx context.Context, tx TTx) (string, error) {
			o, err := s.place(ctx, tx, r)
			return o.ID, err
		})
	if other := (*once.ConflictError)(nil); errors.As(err, &other) {
		err = ErrOther
	}
	if err != nil {
		return "", false, fmt.Errorf("place order: %w", err)
	}
	return id, !again, nil
}

// Note records, for the auditor, the answer that a customer got for a post with a key.
func (s *Order[TTx]) Note(ctx context.Context, key string, code int, body string) error {
	return s.home.Begin(ctx, func(tx TTx) error {
		_, err := s.home.DB(tx).Exec(ctx, s.sql["Receipt"], key, code, body)
		return err
	})
}

// place takes an order and publishes it.
func (s *Order[TTx]) place(ctx context.Context, tx TTx, r Request) (event.Order, error) {
	db := s.home.DB(tx)
	o, err := s.priced(ctx, db, r)
	if err != nil {
		return o, err
	}
	if _, err := db.Exec(ctx, s.sql["Place"], o.ID, o.Customer, o.Cents); err != nil {
		return o, err
	}
	for i, item := range o.Items {
		if _, err := db.Exec(ctx, s.sql["PlaceItem"], o.ID, i, item.SKU, item.Quantity,
			item.Cents); err != nil {
			return o, fmt.Errorf("item %d: %w", i, err)
		}
	}
	if err := s.remember(ctx, db, o.ID, Pending); err != nil {
		return o, err
	}
	if s.saga != nil {
		if _, err := s.saga.orders.Start(ctx, tx, o); err != nil {
			return o, err
		}
	}
	return o, s.out.Write(ctx, tx, s.events.OrderPlaced.New(o.ID, o))
}

func (s *Order[TTx]) priced(ctx context.Context, db table.DB, r Request) (event.Order, error) {
	o := event.Order{ID: s.o.NewID(), Customer: r.Customer}
	for _, line := range r.Items {
		item := event.Item{SKU: line.SKU, Quantity: line.Quantity, Cents: standardPrice}
		err := db.QueryRow(ctx, s.sql["PriceOf"], line.SKU).Scan(&item.Cents)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return o, fmt.Errorf("price of %s: %w", line.SKU, err)
		}
		o.Items = append(o.Items, item)
		o.Cents += item.Quantity * item.Cents
	}
	return o, nil
}

// Find returns the order of that id, or ErrNotFound.
func (s *Order[TTx]) Find(ctx context.Context, id string) (Summary, error) {
	return s.find(ctx, s.home.Read, id)
}

func (s *Order[TTx]) find(ctx context.Context, db table.DB, id string) (Summary, error) {
	out := Summary{Order: event.Order{ID: id}}
	err := db.QueryRow(ctx, s.sql["ByID"], id).Scan(&out.Customer, &out.Cents, (*string)(&out.State),
		&out.Reason)
	if errors.Is(err, sql.ErrNoRows) {
		return out, ErrNotFound
	}
	if err == nil {
		err = table.All(ctx, db, s.sql["Items"], []any{id}, func(row table.Row) error {
			var item event.Item
			defer func() { out.Items = append(out.Items, item) }()
			return row.Scan(&item.SKU, &item.Quantity, &item.Cents)
		})
	}
	if err != nil {
		return out, fmt.Errorf("find order: %w", err)
	}
	return out, nil
}

// Status returns the state of an order with its history, or ErrNotFound.
func (s *Order[TTx]) Status(ctx context.Context, id string) (Status, error) {
	out := Status{ID: id}
	err := table.All(ctx, s.home.Read, s.sql["Status"], []any{id}, func(row table.Row) error {
		var at Moment
		defer func() { out.History = append(out.History, at) }()
		return row.Scan((*string)(&out.State), &out.Reason, (*string)(&at.State), &at.At)
	})
	if err != nil {
		return out, fmt.Errorf("status of order: %w", err)
	}
	if len(out.History) == 0 {
		return out, ErrNotFound
	}
	return out, s.addRequests(ctx, &out)
}
