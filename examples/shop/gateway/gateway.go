// Package gateway is a payment gateway as a merchant meets it: a program of its own, with a ledger of its
// own, idempotent by key for as long as it remembers the key, and at will slow, out of order, or silent after
// it has done what was asked.
//
// ledger.go is what it does, http.go how it is asked (`shop gateway`), mood.go how it misbehaves, client.go
// the merchant's side.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Gateway moves money, once for each key.
type Gateway interface {
	// Charge takes money from a customer. Under a key that it remembers it answers as it did before.
	// A *RefusedError is its final "no". Any other error leaves open whether money was moved.
	Charge(ctx context.Context, key string, m Move) (Receipt, error)
	// Refund gives money to a customer, in the same way.
	Refund(ctx context.Context, key string, m Move) (Receipt, error)
	// Cancel uses a key up: what was not moved under it never will be. Done: it was, before.
	Cancel(ctx context.Context, key string) (r Receipt, done bool, err error)
	// Find looks a key up in the ledger, which forgets nothing.
	Find(ctx context.Context, key string) (r Receipt, found bool, err error)
}

// A Move is what a merchant asks for.
type Move struct {
	Customer string `json:"customer"`
	Order    string `json:"order"` // as the merchant calls it
	Cents    int64  `json:"cents"`
}

// A Receipt is what was moved.
type Receipt struct {
	ID   string `json:"id"`
	Kind string `json:"kind"` // Charge or Refund
	Key  string `json:"key"`
	Move
}

// Kinds of moves.
const (
	Charge = "charge"
	Refund = "refund"
)

// A RefusedError is the gateway's "no": nothing was moved, and under this key nothing will be.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return "the gateway refuses: " + e.Reason }

// A BusyError says that the gateway did not even begin.
type BusyError struct{ After time.Duration }

func (e *BusyError) Error() string {
	return fmt.Sprintf("the gateway is busy: ask again in %v", e.After)
}

var (
	// ErrOther: the key was used for something else.
	ErrOther = errors.New("the key was used for something else")
	// ErrInvalid: this cannot be asked for, now or later.
	ErrInvalid = errors.New("the request is not valid")
)

// Why money is not moved.
const (
	NoMoney   = "not enough money"
	Cancelled = "cancelled before"
)

// Check says what is wrong with a request; nil: nothing.
func Check(key string, m Move) error {
	switch {
	case key == "" || len(key) > maxKey:
		return fmt.Errorf("%w: the idempotency key must have 1 to %d bytes", ErrInvalid, maxKey)
	case m.Customer == "" || len(m.Customer) > maxKey || len(m.Order) > maxKey:
		return fmt.Errorf("%w: customer and order must have 1 to %d bytes", ErrInvalid, maxKey)
	case m.Cents < 0:
		return fmt.Errorf("%w: cents must not be negative", ErrInvalid)
	}
	return nil
}

const maxKey = 255
