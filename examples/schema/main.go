// Schema writes a payment in Avro and prints it when its own consumer has taken it, with the id of its
// schema. The registry is that of REGISTRY. The type is declared once; what it says today follows from the
// struct.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/sr"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/examples/schema/payment"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/schema"
	"github.com/skald-go/skald/store/pgstore"
)

func main() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	check(err)
	bus, err := kafkabroker.New(os.Getenv("KAFKA"), nil)
	check(err)
	client, err := sr.NewClient(sr.URLs(os.Getenv("REGISTRY")))
	check(err)

	db := pgstore.New(pool, nil)
	var registry schema.Registry
	check(registry.Connect(schema.Config{Client: client, Store: db}))
	processed := payment.Events(&registry)
	check(registry.Warm(ctx, processed)) // no transaction waits for the registry

	out, in := outbox.New(db, nil), inbox.New(db, bus, "ledger", nil)
	inbox.On(in, processed, func(_ context.Context, _ pgx.Tx, m skald.Received[payment.Payment]) error {
		if m.Value.Amount <= 0 {
			return skald.Reject(errors.New("no amount"))
		}
		fmt.Printf("order %s paid %d by %s\n", m.Value.Order, m.Value.Amount, m.Value.Method)
		return nil
	})
	check(pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		return out.Write(ctx, tx, processed.New("o1",
			payment.Payment{Order: "o1", Amount: 4999, Method: "card"}))
	}))
	check(skald.RunUntilSignal(ctx, in, relay.New(db, bus, nil)))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
