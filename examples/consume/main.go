// Consume takes stock for each order once; what it says itself leaves by the relay beside it.
package main

import (
	"context"
	"errors"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store/pgstore"
)

type Order struct {
	ID, SKU  string
	Quantity int
}

var (
	OrderPlaced   = skald.Event[Order]{Topic: "orders", Type: "order.placed"}
	StockReserved = skald.Event[Order]{Topic: "inventory", Type: "stock.reserved"}
	StockShort    = skald.Event[Order]{Topic: "inventory", Type: "stock.short"}
)

func main() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	check(err)
	bus, err := kafkabroker.New(os.Getenv("KAFKA"), nil)
	check(err)

	db := pgstore.New(pool, nil)
	out, in := outbox.New(db, nil), inbox.New(db, bus, "stock", nil)
	inbox.On(in, OrderPlaced, func(ctx context.Context, tx pgx.Tx, m skald.Received[Order]) error {
		o := m.Value
		tag, err := tx.Exec(ctx, `UPDATE stock SET free = free - $1 WHERE sku = $2 AND free >= $1`,
			o.Quantity, o.SKU)
		if err != nil {
			return err // rolled back and retried; only this order waits
		}
		if tag.RowsAffected() == 0 { // rolled back for good; StockShort is published
			return skald.Reject(errors.New("out of stock"), StockShort.New(o.ID, o))
		}
		return out.Write(ctx, tx, StockReserved.New(o.ID, o))
	})
	check(skald.RunUntilSignal(ctx, in, relay.New(db, bus, nil)))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
