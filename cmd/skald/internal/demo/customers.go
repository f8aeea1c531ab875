// This file is who places the orders of a run, has some changed and cancelled, and asks until there
// is an answer.

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

// wishes are what customers want at the Order service behind their orders, and the answers that they note.
type wishes interface {
	Note(ctx context.Context, key string, code int, body string) error
	Change(ctx context.Context, id, address string) (fresh bool, err error)
	Cancel(ctx context.Context, id string) (fresh bool, err error)
}

// shoppers of a shop.
type shoppers struct {
	Door   http.Handler // of the Order service
	Wishes wishes
	Logger *slog.Logger
	// Placed is told of each order that is placed, the nth of all.
	Placed func(ctx context.Context, id string, n int)
}

// Load places the orders of a seed, has some changed and cancelled, several at the same time, each under its
// Idempotency-Key: what an earlier life of this process placed is found again.
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
func (c *shoppers) place(ctx context.Context, o sample.Order) string {
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
func (c *shoppers) wish(ctx context.Context, id string, w sample.Wish) {
	if w.Address != "" {
		insist(ctx, c.Logger, id, func() error { return answered(c.Wishes.Change(ctx, id, w.Address)) })
	}
	if w.Cancel {
		insist(ctx, c.Logger, id, func() error { return answered(c.Wishes.Cancel(ctx, id)) })
	}
}

// answered: that it is too late is an answer.
func answered(_ bool, err error) error {
	if errors.Is(err, order.ErrTooLate) {
		return nil
	}
	return err
}

// insist tries until it is answered, as a customer would.
func insist(ctx context.Context, logger *slog.Logger, about string, ask func() error) {
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
