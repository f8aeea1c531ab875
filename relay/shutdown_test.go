package relay_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store/memstore"
)

// In a shutdown the last handler writes a message. The relay, which skald.Run stops after the handler, has
// published the message when Run returns.
func TestLastMessageOfAHandlerIsPublished(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	for range 20 {
		db, bus := memstore.New(nil), membroker.New(nil)
		if err := bus.MakeTopics(t.Context(), 1, "orders", "payments"); err != nil {
			t.Fatal(err)
		}
		placed := skald.Event[string]{Topic: "orders", Type: "placed"}
		paid := skald.Event[string]{Topic: "payments", Type: "paid"}
		out := outbox.New(db, nil)
		in := inbox.New(db, bus.Client(), "payment", &inbox.Options{Logger: quiet})
		ctx, stop := context.WithCancel(t.Context())
		inbox.On(in, placed, func(ctx context.Context, tx *memstore.Tx, m skald.Received[string]) error {
			stop()
			return out.Write(ctx, tx, paid.New("o-1", m.Value))
		})
		tx := db.BeginTx()
		if err := out.Write(t.Context(), tx, placed.New("o-1", "tea")); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := skald.Run(ctx, relay.New(db, bus.Client(), &relay.Options{Logger: quiet}), in); err != nil {
			t.Fatal(err)
		}
		all, err := bus.Subscribe(t.Context(), broker.Group{Name: "all", Topics: []string{"payments"}})
		if err != nil {
			t.Fatal(err)
		}
		received := 0
		for range 3 {
			got, err := all.Receive(t.Context(), 10)
			if err != nil {
				t.Fatal(err)
			}
			received += len(got.Deliveries)
		}
		if received != 1 {
			t.Fatalf("%d messages", received)
		}
	}
}
