// Orchestrate reserves the stock of an order, charges the card and writes a shipment: each once, or each
// undone once.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store/pgstore"
)

type Order struct {
	ID, SKU  string
	Quantity int
}

func reserve(ctx context.Context, tx pgx.Tx, r saga.Run[Order]) (int, error) {
	tag, err := tx.Exec(ctx, `UPDATE stock SET free = free - $1 WHERE sku = $2 AND free >= $1`,
		r.In.Quantity, r.In.SKU)
	if err == nil && tag.RowsAffected() == 0 {
		err = skald.Reject(errors.New("out of stock")) // turns back; after any other error it is tried again
	}
	return r.In.Quantity, err // what release gets
}

func release(ctx context.Context, tx pgx.Tx, r saga.Run[Order], quantity int) error {
	_, err := tx.Exec(ctx, `UPDATE stock SET free = free + $1 WHERE sku = $2`, quantity, r.In.SKU)
	return err
}

// accept does nothing: the order is written with the start of its saga. The step is there for its undo.
func accept(context.Context, pgx.Tx, saga.Run[Order]) error { return nil }

func cancel(ctx context.Context, tx pgx.Tx, r saga.Run[Order]) error {
	_, err := tx.Exec(ctx, `UPDATE orders SET cancelled = true WHERE id = $1`, r.Key)
	return err
}

func main() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	check(err)

	gateway := call.NewProvider("gateway", nil)
	hold := saga.Do("hold", reserve, release)
	pay := saga.Call("pay", call.NewEndpoint(gateway, charge).WithLookup(find),
		func(r saga.Run[Order]) int { return 250 * hold.Output(r) },
		saga.UndoCall(call.NewEndpoint(gateway, refund),
			func(_ saga.Run[Order], receipt string) string { return receipt }))
	note := saga.Exec("note", func(ctx context.Context, tx pgx.Tx, r saga.Run[Order]) error {
		_, err := tx.Exec(ctx, `INSERT INTO receipts (order_id, receipt) VALUES ($1, $2)`, r.Key, pay.Output(r))
		return err
	}, nil, saga.Pivot())
	orders := saga.New("order", &saga.Options[Order]{
		Key:      func(o Order) string { return o.ID },
		Deadline: 10 * time.Minute,
	}, saga.Exec("accept", accept, cancel), hold, pay, note) // cancel marks the order if the saga turns back

	engine, err := saga.NewEngine(pgstore.New(pool, nil), nil, orders)
	check(err)
	order := Order{ID: fmt.Sprint("o-", os.Getpid()), SKU: "tea", Quantity: 2}
	check(pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { // the order and its saga: both, or neither
		_, err := tx.Exec(ctx, `INSERT INTO orders (id, sku, quantity) VALUES ($1, $2, $3)`, order.ID,
			order.SKU, order.Quantity)
		if err == nil {
			_, err = saga.Bind(engine, orders).Start(ctx, tx, order)
		}
		return err
	}))
	check(skald.RunUntilSignal(ctx, engine))
}

// The gateway of this example takes whatever it is asked for; a key is paid once.
func charge(_ context.Context, cents int, key string) (string, error) {
	log.Printf("charge %d cents under key %s", cents, key)
	return "receipt-" + key, nil
}

func find(_ context.Context, _ int, _ string) (receipt string, found bool, err error) {
	return "", false, nil // nobody was charged before
}

func refund(_ context.Context, receipt, key string) (bool, error) {
	log.Printf("refund %s under key %s", receipt, key)
	return true, nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
