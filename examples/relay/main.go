// Relay carries what was committed to Kafka. Run as many as you like; `skald relay` is the same as a command.
package main

import (
	"context"
	"log"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store/pgstore"
)

func main() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	check(err)
	bus, err := kafkabroker.New(os.Getenv("KAFKA"), nil)
	check(err)
	check(skald.RunUntilSignal(ctx, relay.New(pgstore.New(pool, nil), bus, nil)))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
