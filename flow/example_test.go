package flow_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/flow"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store/memstore"
)

// A flow describes the events of services that no engine controls. A tracker stores the state of each saga.
func ExampleNew() {
	placed := skald.Event[string]{Topic: "orders", Type: "order.placed"}
	paid := skald.Event[string]{Topic: "orders", Type: "order.paid"}
	order, err := flow.New("order", flow.From(placed), flow.Then(placed, paid).Within(time.Minute),
		flow.End(paid))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	db, bus := memstore.New(nil), membroker.New(nil)
	_ = bus.MakeTopics(ctx, 1, "orders")
	in := inbox.New(db, bus, "tracker", nil)
	key := func(m skald.Message) string { return string(m.Key) }
	flow.NewTracker(order, db, &flow.Options{Key: key}).On(in)

	tx := db.BeginTx()
	err = errors.Join(outbox.New(db, nil).Write(ctx, tx, placed.New("o-1", "tea")), tx.Commit())
	err = errors.Join(err, sagatest.Drain(ctx, relay.New(db, bus, nil), in))
	sagas, failed := flow.Find(ctx, db, "o-1")
	for _, s := range sagas {
		fmt.Println(s.Key, s.State, s.Remaining)
	}
	fmt.Println(errors.Join(err, failed))
	// Output:
	// o-1 running [order.paid]
	// <nil>
}
