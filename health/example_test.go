package health_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/health"
	"github.com/skald-go/skald/httpidem"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store/memstore"
)

type order struct{ ID string }

var placed = skald.Event[order]{Topic: "orders", Type: "order.placed"}

// A whole service: an endpoint that writes a message, a relay that publishes it, a consumer, an engine of
// sagas, and the pages for probes. A program passes the same Parts to skald.RunUntilSignal.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	db, bus := memstore.New(nil), membroker.New(nil)
	_ = bus.MakeTopics(ctx, 1, "orders")

	out, in, relays := outbox.New(db, nil), inbox.New(db, bus, "stock", nil), relay.New(db, bus, nil)
	handled := make(chan string, 1)
	inbox.On(in, placed, func(_ context.Context, _ *memstore.Tx, m skald.Received[order]) error {
		handled <- m.Value.ID
		return nil
	})
	engine, _ := saga.NewEngine(db, nil)
	mux := http.NewServeMux()
	mux.Handle("POST /orders", httpidem.Handle(db, "orders", httpidem.OneTenant, nil,
		func(ctx context.Context, tx *memstore.Tx, q httpidem.Request[order]) (httpidem.Reply[order], error) {
			return httpidem.Created(q.Body, ""), out.Write(ctx, tx, placed.New(q.Body.ID, q.Body))
		}))
	pages := health.New(nil, in, engine, relays)
	web := health.NewServer(&http.Server{Addr: "127.0.0.1:0", Handler: mux}, pages)
	at, _ := web.Listen() // a program leaves this to Run
	ended := make(chan error)
	go func() { ended <- skald.Run(ctx, in, engine, relays, web) }()

	place(at.String(), `{"ID": "o-1"}`)
	fmt.Println("handled", <-handled)
	stop()
	fmt.Println(<-ended)
	// Output:
	// 201 Created
	// handled o-1
	// <nil>
}

func place(at, order string) {
	r, _ := http.NewRequest("POST", "http://"+at+"/orders", strings.NewReader(order))
	r.Header.Set("Idempotency-Key", "key-1")
	r.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = a.Body.Close()
	fmt.Println(a.Status)
}
