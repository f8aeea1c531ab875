package order

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/table"
)

var (
	// ErrOther is the answer to an Idempotency-Key that stands for another request already.
	ErrOther = errors.New("this Idempotency-Key stands for another order")
	// ErrNotFound is the answer to a question about an order that there is not.
	ErrNotFound = errors.New("no such order")
)

// standardPrice is what a SKU costs that has no price of its own: 10.00.
const standardPrice = 1000

// A Request is what a customer asks for.
type Request struct {
	Customer string `json:"customer"`
	Items    []Line `json:"items"`
}

// A Line is so many pieces of one SKU.
type Line struct {
	SKU      string `json:"sku"`
	Quantity int64  `json:"quantity"`
}

// A Summary is what a customer sees of an order.
type Summary struct {
	event.Order
	State  State  `json:"state"`
	Reason string `json:"reason"`
}

// A Status is how an order came to where it is.
type Status struct {
	ID      string   `json:"id"`
	State   State    `json:"state"`
	Reason  string   `json:"reason"`
	History []Moment `json:"history"`

	Cancellation string    `json:"cancellation,omitempty"` // asked, stopped or gone
	Changes      []Changed `json:"changes,omitempty"`
	Held         []Held    `json:"held,omitempty"` // over HTTP only, if Options.Held is set: what it waits for a human with
}

// A Moment is when an order entered a state.
type Moment struct {
	State State  `json:"state"`
	At    string `json:"at"` // RFC 3339, UTC
}

// Place takes an order and says order.placed, in one transaction. The same request under the same key again
// finds the order that is there (fresh is false); another one is ErrOther.
func (s *Order[TTx]) Place(ctx context.Context, key string, r Request) (id string, fresh bool, err error) {
	print, err := fingerprint(r)
	if err != nil {
		return "", false, err
	}
	err = s.home.Begin(ctx, func(tx TTx) error {
		id, fresh, err = s.place(ctx, tx, key, print, r)
		return err
	})
	if err != nil {
		return "", false, fmt.Errorf("place order: %w", err)
	}
	return id, fresh, nil
}

func (s *Order[TTx]) place(ctx context.Context, tx TTx, key, print string, r Request) (id string, fresh bool, err error) {
	db := s.home.DB(tx)
	o, err := s.priced(ctx, db, r)
	if err != nil {
		return "", false, err
	}
	switch n, err := db.Exec(ctx, s.sql["Place"], o.ID, key, print, o.Customer, o.Cents); {
	case err != nil:
		return "", false, err
	case n == 0:
		id, err := s.placed(ctx, db, key, print)
		return id, false, err
	}
	for i, item := range o.Items {
		if _, err := db.Exec(ctx, s.sql["PlaceItem"], o.ID, i, item.SKU, item.Quantity, item.Cents); err != nil {
			return "", false, fmt.Errorf("item %d: %w", i, err)
		}
	}
	if err := s.remember(ctx, db, o.ID, Pending); err != nil {
		return "", false, err
	}
	return o.ID, true, s.out.Write(ctx, tx, s.events.OrderPlaced.New(o.ID, o))
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

func (s *Order[TTx]) placed(ctx context.Context, db table.DB, key, print string) (id string, err error) {
	var was string
	if err := db.QueryRow(ctx, s.sql["ByKey"], key).Scan(&id, &was); err != nil {
		return "", err
	}
	if was != print {
		return "", ErrOther
	}
	return id, nil
}

// fingerprint is equal for requests that mean the same, however they are spaced.
func fingerprint(r Request) (string, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("fingerprint: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// Find is the order of that id, or ErrNotFound.
func (s *Order[TTx]) Find(ctx context.Context, id string) (Summary, error) {
	return s.find(ctx, s.home.Read, id)
}

func (s *Order[TTx]) find(ctx context.Context, db table.DB, id string) (Summary, error) {
	out := Summary{Order: event.Order{ID: id}}
	err := db.QueryRow(ctx, s.sql["ByID"], id).Scan(&out.Customer, &out.Cents, (*string)(&out.State), &out.Reason)
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

// Status is the state of the order of that id and how it came there, or ErrNotFound.
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
	return out, s.wishes(ctx, &out)
}
