// This file has the customers of a run. They place orders, change or cancel some of them, and repeat each
// request until they receive an answer.

package demo

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/skald-go/skald/examples/shop/order"
	"github.com/skald-go/skald/examples/shop/sample"
)

const (
	clients     = 4
	clientRetry = 20 * time.Millisecond
	posts       = 2 // of each order
)

// wishes has the requests of customers to change or cancel an order, and records the answers to customers.
type wishes interface {
	Note(ctx context.Context, key string, code int, body string) error
	Change(ctx context.Context, id, address string) (fresh bool, err error)
	Cancel(ctx context.Context, id string) (fresh bool, err error)
}

// shoppers are the customers of the shop.
type shoppers struct {
	Door   http.Handler // of the Order service
	Wishes wishes
	Logger *slog.Logger
	// Placed is called after the nth order is placed.
	Placed func(ctx context.Context, id string, n int)
}

// Load places the orders of a seed, several at a time, and changes or cancels some of them. Each order has an
// Idempotency-Key, so a process that continues the run creates no order twice.
func (c *shoppers) Load(ctx context.Context, seed uint64, most int) {
	type nth struct {
		sample.Order
		n int
	}
	orders := make(chan nth)
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			later := sample.Later{Do: func(id string, w sample.Wish) { c.wish(ctx, id, w) }}
			for o := range orders {
				id := c.sendRepeated(ctx, o.Order)
				if id != "" {
					c.Placed(ctx, id, o.n)
				}
				later.Placed(id, o.Wish)
			}
			later.Rest()
		})
	}
	for i, o := range sample.Orders(seed, most) {
		select {
		case orders <- nth{o, i}:
		case <-ctx.Done():
		}
	}
	close(orders)
	wg.Wait()
}

// sendRepeated sends the same order several times at once, as a proxy that repeats a request may do.
func (c *shoppers) sendRepeated(ctx context.Context, o sample.Order) string {
	var ids [posts]string
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() { ids[i] = c.post(ctx, o) })
	}
	wg.Wait()
	return ids[0]
}

// wish changes or cancels an order. A repeated request has no further effect.
func (c *shoppers) wish(ctx context.Context, id string, w sample.Wish) {
	if w.Address != "" {
		insist(ctx, c.Logger, id, func() error { return answered(c.Wishes.Change(ctx, id, w.Address)) })
	}
	if w.Cancel {
		insist(ctx, c.Logger, id, func() error { return answered(c.Wishes.Cancel(ctx, id)) })
	}
}

// answered returns nil for ErrTooLate, because ErrTooLate is a valid answer to a customer.
func answered(_ bool, err error) error {
	if errors.Is(err, order.ErrTooLate) {
		return nil
	}
	return err
}

// insist calls the function try until it succeeds or ctx is done.
func insist(ctx context.Context, logger *slog.Logger, about string, try func() error) {
	for ctx.Err() == nil {
		err := try()
		if err == nil {
			return
		}
		logger.WarnContext(ctx, "customer", "about", about, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(clientRetry):
		}
	}
}
