// Http takes orders over HTTP, each once: row, message and answer are one commit. A relay publishes the
// message.
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/health"
	"github.com/skald-go/skald/httpidem"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
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
	bus, err := kafkabroker.New(os.Getenv("KAFKA"), nil)
	check(err)
	db := pgstore.New(pool, nil)
	out, relays := outbox.New(db, nil), relay.New(db, bus, nil)

	mux := http.NewServeMux()
	mux.Handle("POST /orders", httpidem.Handle(db, "orders", httpidem.OneTenant, nil,
		func(ctx context.Context, tx pgx.Tx, q httpidem.Request[Order]) (httpidem.Reply[Order], error) {
			o := q.Body
			if o.Quantity < 1 {
				return httpidem.Reply[Order]{}, httpidem.Refuse(http.StatusUnprocessableEntity,
					"the quantity must be 1 at least")
			}
			_, err := tx.Exec(ctx, `INSERT INTO orders (id, sku, quantity) VALUES ($1, $2, $3)`, o.ID,
				o.SKU, o.Quantity)
			if err == nil {
				err = out.Write(ctx, tx, OrderPlaced.New(o.ID, o))
			}
			return httpidem.Created(o, "/orders/"+o.ID), err
		}))
	// A handler that knows nothing of keys, or of our transaction.
	mux.Handle("POST /legacy", httpidem.Wrap(db, "legacy", httpidem.OneTenant, nil, http.HandlerFunc(legacy)))

	web := health.NewServer(&http.Server{Addr: "127.0.0.1:8080", Handler: mux, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second}, health.New(nil, relays)) // /livez and /readyz
	check(skald.RunUntilSignal(ctx, relays, web))
}

func legacy(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
