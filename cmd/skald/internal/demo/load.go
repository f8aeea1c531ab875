package demo

import (
	"context"
	"errors"
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

// load places the orders, has some changed and cancelled, several at the same time, each under its
// Idempotency-Key: what an earlier life of this process placed is found again.
func (c *crew) load(ctx context.Context) {
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
				c.poison(ctx, id, o.n)
				later.Placed(id, o.Wish)
			}
			later.Rest()
		})
	}
	for i, o := range sample.Orders(c.o.Seed, c.o.Orders) {
		select {
		case orders <- nth{o, i}:
		case <-ctx.Done():
		}
	}
	close(orders)
	wg.Wait()
}

// place places an order: posts of it that arrive at the same time, as where a proxy has sent one again.
func (c *crew) place(ctx context.Context, o sample.Order) (id string) {
	var ids [posts]string
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() { ids[i] = c.post(ctx, o) })
	}
	wg.Wait()
	if id = ids[0]; id != "" {
		c.first()
	}
	return id
}

// wish asks for what a customer wants behind an order: what an earlier life of this process asked for is
// found again.
func (c *crew) wish(ctx context.Context, id string, w sample.Wish) {
	if w.Address != "" {
		c.insist(ctx, id, func() error { return answered(c.shop.Change(ctx, id, w.Address)) })
	}
	if w.Cancel {
		c.insist(ctx, id, func() error { return answered(c.shop.Cancel(ctx, id)) })
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
func (c *crew) insist(ctx context.Context, about string, ask func() error) {
	for ctx.Err() == nil {
		err := ask()
		if err == nil {
			return
		}
		c.o.Logger.WarnContext(ctx, "customer", "about", about, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(clientRetry):
		}
	}
}
