// Package customers is who places the orders of a run, has some changed and cancelled, and asks until there
// is an answer.
package customers

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

// Wishes are what customers want at the Order service behind their orders, and the answers that they note.
type Wishes interface {
	Note(ctx context.Context, key string, code int, body string) error
	Change(ctx context.Context, id, address string) (fresh bool, err error)
	Cancel(ctx context.Context, id string) (fresh bool, err error)
}

// Customers of a shop.
type Customers struct {
	Door   http.Handler // of the Order service
	Wishes Wishes
	Logger *slog.Logger
	// Placed is told of each order that is placed, the nth of all.
	Placed func(ctx context.Context, id string, n int)
}

// Load places the orders of a seed, has some changed and cancelled, several at the same time, each under its
// Idempotency-Key: what an earlier life of this process placed is found again.
func (c *Customers) Load(ctx context.Context, seed uint64, most int) {
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
				id := c.place(ctx, o.Order)
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

// place places an order: posts of it that arrive at the same time, as where a proxy has sent one again.
func (c *Customers) place(ctx context.Context, o sample.Order) string {
	var ids [posts]string
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() { ids[i] = c.post(ctx, o) })
	}
	wg.Wait()
	return ids[0]
}

// wish asks for what a customer wants behind an order: what an earlier life of this process asked for is
// found again.
func (c *Customers) wish(ctx context.Context, id string, w sample.Wish) {
	if w.Address != "" {
		Insist(ctx, c.Logger, id, func() error { return answered(c.Wishes.Change(ctx, id, w.Address)) })
	}
	if w.Cancel {
		Insist(ctx, c.Logger, id, func() error { return answered(c.Wishes.Cancel(ctx, id)) })
	}
}

// answered: that it is too late is an answer.
func answered(_ bool, err error) error {
	if errors.Is(err, order.ErrTooLate) {
		return nil
	}
	return err
}

// Insist tries until it is answered, as a customer would.
func Insist(ctx context.Context, logger *slog.Logger, about string, ask func() error) {
	for ctx.Err() == nil {
		err := ask()
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
