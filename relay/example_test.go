package relay_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store/memstore"
)

// A relay publishes the messages of committed transactions.
func ExampleNew() {
	ctx, stop := context.WithCancel(context.Background())
	db, bus := memstore.New(nil), membroker.New(nil)
	_ = bus.MakeTopics(ctx, 1, "orders")
	placed := skald.Event[string]{Topic: "orders", Type: "order.placed"}
	tx := db.BeginTx()
	if err := outbox.New(db, nil).Write(ctx, tx, placed.New("o-1", "tea")); err != nil {
		fmt.Println(err)
	}
	_ = tx.Commit()

	done := make(chan error)
	r := relay.New(db, bus, &relay.Options{Logger: slog.New(slog.DiscardHandler)})
	go func() { done <- skald.Run(ctx, r) }() // in a program: skald.RunUntilSignal

	orders, _ := bus.Subscribe(ctx, broker.Group{Name: "example", Topics: []string{"orders"}})
	for received := 0; received == 0; {
		batch, err := orders.Receive(ctx, 10)
		for _, d := range batch.Deliveries {
			fmt.Println(d.Message.Type, string(d.Message.Key), string(d.Message.Data), err)
			received++
		}
	}
	stop()
	fmt.Println(<-done)
	// Output:
	// order.placed o-1 "tea" <nil>
	// <nil>
}
