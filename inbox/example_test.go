package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

type anOrder struct{ ID string }

var (
	orderPlaced    = skald.Event[anOrder]{Topic: "orders", Type: "order.placed"}
	orderCancelled = skald.Event[anOrder]{Topic: "orders", Type: "order.cancelled"}
	orderRefunded  = skald.Event[anOrder]{Topic: "payments", Type: "order.refunded"}
)

// A step is done once and undone once. The order of its messages does not matter.
func ExampleUndoOn() {
	ctx := context.Background()
	db, bus := memstore.New(nil), membroker.New(nil)
	check(bus.MakeTopics(ctx, 1, "orders", "payments"))
	in := inbox.New(db, bus, "payment", nil)

	charge := inbox.NewStep(in, "charge", func(m skald.Received[anOrder]) string { return m.Value.ID })
	inbox.DoOn(charge, orderPlaced,
		func(_ context.Context, tx *memstore.Tx, m skald.Received[anOrder]) (inbox.Result, error) {
			fmt.Println("charge", m.Value.ID)
			return inbox.Result{Value: "receipt"}, tx.Put("paid "+m.Value.ID, "yes")
		})
	inbox.UndoOn(charge, orderCancelled,
		func(_ context.Context, tx *memstore.Tx, m skald.Received[anOrder],
			done inbox.DoneStep) (inbox.Result, error) {
			fmt.Printf("refund %s by its %s\n", m.Value.ID, done.Result)
			return inbox.Result{}, tx.Delete("paid " + m.Value.ID)
		},
		inbox.Reply(func(m skald.Received[anOrder], _ store.StepState) []skald.Draft {
			return []skald.Draft{orderRefunded.New(m.Value.ID, m.Value)} // also if there was no charge
		}))

	check(write(ctx, db, orderPlaced.New("o-1", anOrder{"o-1"}), orderCancelled.New("o-1", anOrder{"o-1"})))
	check(write(ctx, db, orderCancelled.New("o-2", anOrder{"o-2"}), orderPlaced.New("o-2", anOrder{"o-2"})))
	check(sagatest.Drain(ctx, relay.New(db, bus, nil), in))
	// Output:
	// charge o-1
	// refund o-1 by its "receipt"
}

func write(ctx context.Context, db *memstore.Store, ds ...skald.Draft) error {
	tx := db.BeginTx()
	return errors.Join(outbox.New(db, nil).Write(ctx, tx, ds...), tx.Commit())
}

func check(err error) {
	if err != nil {
		fmt.Println(err)
	}
}

// The answer of a gateway is lost after it has charged. The inbox looks the charge up, and sends no other.
func ExampleOnCall() {
	ctx := context.Background()
	db, bus := memstore.New(nil), membroker.New(nil)
	check(bus.MakeTopics(ctx, 1, "orders", "payments"))
	in := inbox.New(db, bus, "payment", &inbox.Options{Logger: slog.New(slog.DiscardHandler),
		Retry: inbox.Retry{InitialInterval: time.Millisecond}})

	charges := map[string]string{}
	gateway := call.NewEndpoint(call.NewProvider("gateway", nil),
		func(_ context.Context, order, key string) (string, error) {
			charges[key] = "receipt of " + order
			return "", errors.New("connection reset")
		}).WithLookup(func(_ context.Context, _, key string) (string, bool, error) {
		receipt, found := charges[key]
		return receipt, found, nil
	})
	inbox.OnCall(in, orderPlaced, call.New(gateway,
		func(m skald.Received[anOrder]) (string, string) { return m.Value.ID, "charge-" + m.Value.ID },
		func(_ context.Context, tx *memstore.Tx, m skald.Received[anOrder], o call.Outcome[string]) error {
			return tx.Put("paid "+m.Value.ID, o.Value)
		}))

	check(write(ctx, db, orderPlaced.New("o-1", anOrder{"o-1"})))
	for db.User()["paid o-1"] == "" {
		check(sagatest.DrainAllowing(ctx, sagatest.Parked, relay.New(db, bus, nil), in))
	}
	fmt.Println(db.User()["paid o-1"], len(charges))
	// Output: receipt of o-1 1
}

// Several messages share a transaction, and one statement.
func ExampleOnBatch() {
	ctx := context.Background()
	db, bus := memstore.New(nil), membroker.New(nil)
	check(bus.MakeTopics(ctx, 1, "orders", "payments"))
	in := inbox.New(db, bus, "statistics", &inbox.Options{Batch: 100})

	inbox.OnBatch(in, orderPlaced,
		func(_ context.Context, tx *memstore.Tx, ms []skald.Received[anOrder]) error {
			for _, m := range ms { // in SQL: one INSERT for all of them
				if err := tx.Put("placed "+m.Value.ID, "yes"); err != nil {
					return err
				}
			}
			return nil
		})

	check(write(ctx, db, orderPlaced.New("o-1", anOrder{"o-1"}), orderPlaced.New("o-2", anOrder{"o-2"})))
	check(sagatest.Drain(ctx, relay.New(db, bus, nil), in))
	fmt.Println(db.User())
	// Output: map[placed o-1:yes placed o-2:yes]
}

// Each message takes effect once, in the transaction of its handler.
func ExampleOn() {
	ctx := context.Background()
	db, bus := memstore.New(nil), membroker.New(nil)
	check(bus.MakeTopics(ctx, 1, "orders", "payments"))
	in := inbox.New(db, bus, "mailer", nil)

	inbox.On(in, orderPlaced, func(_ context.Context, tx *memstore.Tx, m skald.Received[anOrder]) error {
		if m.Value.ID == "" {
			return skald.Reject(errors.New("an order has an id")) // rolls back, and is final
		}
		return tx.Put("mail "+m.Value.ID, "thank you") // after any other error the inbox retries the message
	})

	check(write(ctx, db, orderPlaced.New("o-1", anOrder{"o-1"})))
	check(sagatest.Drain(ctx, relay.New(db, bus, nil), in))
	fmt.Println(db.User()["mail o-1"])
	// Output: thank you
}
