// Compensate charges for each order once, and gives the money back once if the stock was short.
package main

import (
	"context"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store/pgstore"
)

type Order struct {
	ID, SKU  string
	Quantity int
}

var (
	OrderPlaced = skald.Event[Order]{Topic: "orders", Type: "order.placed"}
	StockShort  = skald.Event[Order]{Topic: "inventory", Type: "stock.short"}
)

func main() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	check(err)
	bus, err := kafkabroker.New(os.Getenv("KAFKA"), nil)
	check(err)

	in := inbox.New(pgstore.New(pool, nil), bus, "payment", nil)
	charge := inbox.NewStep(in, "charge", func(m skald.Received[Order]) string { return m.Value.ID })
	inbox.DoOn(charge, OrderPlaced,
		func(ctx context.Context, tx pgx.Tx, m skald.Received[Order]) (inbox.Result, error) {
			_, err := tx.Exec(ctx, `INSERT INTO payments (order_id, cents) VALUES ($1, $2)`, m.Value.ID,
				250*m.Value.Quantity)
			return inbox.Result{}, err
		})
	inbox.UndoOn(charge, StockShort, // calls the function only if the charge took effect, and at most once
		func(ctx context.Context, tx pgx.Tx, m skald.Received[Order],
			_ inbox.DoneStep) (inbox.Result, error) {
			_, err := tx.Exec(ctx,
				`INSERT INTO payments SELECT order_id, -cents FROM payments WHERE order_id = $1`, m.Value.ID)
			return inbox.Result{}, err
		})
	check(skald.RunUntilSignal(ctx, in))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
