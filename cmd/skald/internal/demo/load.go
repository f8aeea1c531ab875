package demo

import (
	"context"
	"sync"
	"time"

	"github.com/skald-go/skald/examples/shop/sample"
)

const (
	clients     = 4
	clientRetry = 20 * time.Millisecond
)

// load places the orders, several at the same time, each under its Idempotency-Key: what an earlier life of this
// process placed is found again.
func (c *crew) load(ctx context.Context) {
	orders := make(chan sample.Order)
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for o := range orders {
				c.place(ctx, o)
			}
		})
	}
	for _, o := range sample.Orders(c.o.Seed, c.o.Orders) {
		select {
		case orders <- o:
		case <-ctx.Done():
		}
	}
	close(orders)
	wg.Wait()
}

// place tries until it is answered, as a customer would.
func (c *crew) place(ctx context.Context, o sample.Order) {
	for ctx.Err() == nil {
		_, _, err := c.shop.Place(ctx, o.Key, o.Request)
		if err == nil {
			c.first()
			return
		}
		c.o.Logger.WarnContext(ctx, "place order", "key", o.Key, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(clientRetry):
		}
	}
}
