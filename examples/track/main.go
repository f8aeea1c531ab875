// Track keeps where each order stands, and answers GET /status/{order} on this machine.
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/flow"
	"github.com/skald-go/skald/health"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/status"
	"github.com/skald-go/skald/store/pgstore"
)

type Order struct{ ID string }

var (
	OrderPlaced    = skald.Event[Order]{Topic: "orders", Type: "order.placed"}
	OrderCancelled = skald.Event[Order]{Topic: "orders", Type: "order.cancelled"}
	StockReserved  = skald.Event[Order]{Topic: "inventory", Type: "stock.reserved"}
	StockShort     = skald.Event[Order]{Topic: "inventory", Type: "stock.short"}
)

func placing() (*flow.Flow, error) {
	return flow.New("order", flow.From(OrderPlaced),
		flow.Then(OrderPlaced, StockReserved, StockShort).Within(time.Minute),
		flow.Then(StockShort, OrderCancelled),
		flow.Fail(StockShort), flow.End(StockReserved, OrderCancelled))
}

func main() {
	ctx := context.Background()
	placing, err := placing()
	check(err)
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	check(err)
	bus, err := kafkabroker.New(os.Getenv("KAFKA"), nil)
	check(err)

	db := pgstore.New(pool, nil)
	in := inbox.New(db, bus, "tracker", nil)
	flow.NewTracker(placing, db,
		&flow.Options{Key: func(m skald.Message) string { return string(m.Key) }}).On(in)
	answers, err := status.Handler(db, nil)
	check(err)
	mux := http.NewServeMux()
	mux.Handle("/status/", http.StripPrefix("/status", answers))
	web := health.NewServer(&http.Server{Addr: "127.0.0.1:8080", Handler: mux}, health.New(nil, in))
	check(skald.RunUntilSignal(ctx, in, web))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
