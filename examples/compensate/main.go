// Compensate charges for each order once, and gives the money back once if the stock was short.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	check(err)
	bus, err := kafkabroker.New(os.Getenv("KAFKA"), nil)
	check(err)

	in := inbox.New(pgstore.New(pool, nil), bus, "payment", nil)
	charge := func(m skald.Received[Order]) inbox.Step { // the step that both messages are about
		return inbox.Step{Saga: m.Value.ID, Name: "charge"}
	}
	inbox.Forward(in, OrderPlaced, charge,
		func(ctx context.Context, tx pgx.Tx, m skald.Received[Order]) (inbox.Result, error) {
			_, err := tx.Exec(ctx, `INSERT INTO payments (order_id, cents) VALUES ($1, $2)`, m.Value.ID,
				250*m.Value.Quantity)
			return inbox.Result{}, err
		}, nil)
	inbox.Compensate(in, StockShort, charge,
		func(ctx context.Context, tx pgx.Tx, m skald.Received[Order], _ inbox.Took) (inbox.Result, error) {
			_, err := tx.Exec(ctx,
				`INSERT INTO payments SELECT order_id, -cents FROM payments WHERE order_id = $1`, m.Value.ID)
			return inbox.Result{}, err // called only if the charge took effect; if it did not, it never will
		}, nil)
	check(skald.Run(ctx, in))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
