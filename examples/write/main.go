// Write places an order and says so, in one transaction.
package main

import (
	"context"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/store/pgstore"
)

type Order struct {
	ID, SKU  string
	Quantity int
}

var OrderPlaced = skald.Event[Order]{Topic: "orders", Type: "order.placed"}

func main() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	check(err)
	out := outbox.New(pgstore.New(pool, nil), nil)

	o := Order{ID: "o-1", SKU: "tea", Quantity: 2}
	check(pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { // your transaction, your driver
		_, err := tx.Exec(ctx, `INSERT INTO orders (id, sku, quantity) VALUES ($1, $2, $3)`, o.ID,
			o.SKU, o.Quantity)
		if err != nil {
			return err
		}
		return out.Write(ctx, tx, OrderPlaced.New(o.ID, o)) // published if, and only if, you commit
	}))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
