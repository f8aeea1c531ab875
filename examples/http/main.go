// Http takes orders over HTTP, each once: row, message and answer are one commit.
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
	"github.com/skald-go/skald/httpidem"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/store/pgstore"
)

type Order struct {
	ID, SKU  string
	Quantity int
}

var OrderPlaced = skald.Event[Order]{Topic: "orders", Type: "order.placed"}

func main() {
	pool, err := pgxpool.New(context.Background(), os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	db := pgstore.New(pool, nil)
	out := outbox.New(db, nil)

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

	server := &http.Server{Addr: "127.0.0.1:8080", Handler: mux, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second}
	log.Fatal(server.ListenAndServe())
}

func legacy(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
