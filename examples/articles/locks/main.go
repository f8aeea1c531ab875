// Locks is "Resilient Choreographed Sagas: Idempotency and Distributed Locking" with Skald: what one order's
// events do excludes each other, each event takes effect once, and a holder that is paused past its lease
// changes nothing. It runs by itself, on a database and a Redis in memory.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/skald-go/skald/lock"
	"github.com/skald-go/skald/rediscmd/goredis"
	"github.com/skald-go/skald/redislock"
	"github.com/skald-go/skald/store/memstore"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer) error {
	server, err := miniredis.Run() // in a service: the Redis that is there
	if err != nil {
		return err
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = rdb.Close() }()
	db := memstore.New(nil)
	order := lock.Entity{Space: "order", Key: "123"}

	// Work of the database alone: its lock comes with the transaction, in the same round trip. No Redis is
	// needed.
	for range 2 {
		status, replayed, err := lock.Once(ctx, db,
			lock.Work{Scope: "reserve-stock", Key: "event-1", Entities: []lock.Entity{order}},
			func(_ context.Context, tx *memstore.Tx, _ lock.Tokens) (string, error) {
				return "reserved", tx.Put("order 123", "reserved")
			})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s, replayed: %v\n", status, replayed)
	}

	// Long work outside of the database: a lease keeps others from beginning it, and the token keeps it from
	// standing if they did.
	locker, err := redislock.New(goredis.New(rdb), &redislock.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	ship := lock.Work{Scope: "ship", Key: "event-2", Entities: []lock.Entity{order}}
	label := func(context.Context, lock.Tokens) (string, error) { return "label 1", nil }
	write := func(_ context.Context, tx *memstore.Tx, label string) (string, error) {
		return label, tx.Put("order 123", "shipped with "+label)
	}
	_, _, err = redislock.Do(ctx, locker, db, ship, func(ctx context.Context, t lock.Tokens) (string, error) {
		// the lease is gone; this process does not know it yet, and another one cancels the order
		server.FlushAll()
		_, _, err := lock.Once(ctx, db, lock.Work{Scope: "cancel", Key: "event-3",
			Entities: []lock.Entity{order}},
			func(_ context.Context, tx *memstore.Tx, _ lock.Tokens) (string, error) {
				return "cancelled", tx.Put("order 123", "cancelled")
			})
		if err != nil {
			return "", err
		}
		return label(ctx, t)
	}, write)
	var overtaken *lock.OvertakenError
	fmt.Fprintf(out, "shipping was overtaken: %v; the order is %s\n", errors.As(err, &overtaken),
		db.User()["order 123"])
	return nil
}
