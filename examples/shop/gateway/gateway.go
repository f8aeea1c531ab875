// Package gateway simulates a payment gateway: a separate program with its own ledger. It is idempotent by
// key while it remembers the key. It can be slow, answer out of order, or fail to answer after it has done
// the request.
//
// ledger.go does the work, http.go serves it (`shop gateway`), mood.go misbehaves, client.go is the
// merchant's side.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Gateway moves money, once for each key.
type Gateway interface {
	// Charge takes money from a customer. For a remembered key it returns the same answer again. A
	// *RefusedError is a final refusal. After any other error the money may have been moved.
	Charge(ctx context.Context, key string, m Move) (Receipt, error)
	// Refund gives money to a customer, in the same way.
	Refund(ctx context.Context, key string, m Move) (Receipt, error)
	// Cancel invalidates a key: no money will be moved under it. done is true if money was moved before.
	Cancel(ctx context.Context, key string) (r Receipt, done bool, err error)
	// Find looks a key up in the ledger, which never forgets.
	Find(ctx context.Context, key string) (r Receipt, found bool, err error)
}

// Move is a merchant's request.
type Move struct {
	Customer string `json:"customer"`
	Order    string `json:"order"` // the merchant's id
	Cents    int64  `json:"cents"`
}

// Receipt is a completed move.
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

// RefusedError is a final refusal: no money was moved, and none will be under this key.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return "the gateway refuses: " + e.Reason }

// BusyError means that the gateway has not started.
type BusyError struct{ After time.Duration }

func (e *BusyError) Error() string {
	return fmt.Sprintf("the gateway is busy: ask again in %v", e.After)
}

var (
	// ErrOther means that the key was used for another request.
	ErrOther = errors.New("the key was used for another request")
	// ErrInvalid means that the request can never succeed.
	ErrInvalid = errors.New("the request is invalid")
)

// Reasons of refusals.
const (
	NoMoney   = "not enough money"
	Cancelled = "cancelled before"
)

// Check validates a request.
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
