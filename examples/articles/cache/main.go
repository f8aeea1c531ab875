// Cache is the consumer of "Production-Grade Idempotent Sagas" with Redis in front: a repeat is dropped by a
// GET, and the database decides all else. It runs by itself, on a database, a broker and a Redis in memory.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/rediscache"
	"github.com/skald-go/skald/rediscmd"
	"github.com/skald-go/skald/rediscmd/goredis"
	"github.com/skald-go/skald/store/memstore"
)

type Order struct {
	ID    string
	Cents int
}

var OrderCreated = skald.Event[Order]{Topic: "orders", Type: "order.created"}

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
	db, bus, quiet := memstore.New(nil), membroker.New(nil), slog.New(slog.DiscardHandler)
	if err := bus.MakeTopics(ctx, 1, OrderCreated.Topic); err != nil {
		return err
	}

	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = rdb.Close() }()
	cache, err := rediscache.New(goredis.New(rdb), &rediscache.Options{
		// within the 30 days of the marks, else the inbox does not start
		TTL: 24 * time.Hour,
		// by default 25 ms; here for the slowest machine
		Guard: rediscmd.GuardOptions{Timeout: time.Minute, Logger: quiet},
	})
	if err != nil {
		return err
	}
	in := inbox.New(db, bus, "payment", &inbox.Options{Cache: inbox.Cache{Finished: cache}, Logger: quiet})
	charges := 0
	inbox.On(in, OrderCreated, func(_ context.Context, tx *memstore.Tx, m skald.Received[Order]) error {
		charges++
		return tx.Put("payment of "+m.Value.ID, fmt.Sprint(m.Value.Cents))
	})

	// deliver has the message delivered once more, and taken.
	deliver := func(what string) error {
		m := skald.Message{ID: "7f1c", Source: "/shop", Topic: "orders", Type: "order.created",
			Key: []byte("7"), Data: []byte(`{"ID":"7","Cents":1200}`)}
		if err := bus.Publish(ctx, []skald.Message{m}).Wait(ctx); err != nil {
			return err
		}
		for busy := true; busy; {
			if busy, err = in.Step(ctx); err != nil {
				return err
			}
		}
		for h := in.Health(); h.Handled+h.Duplicates != cache.Status().Stored+
			cache.Status().Dropped+h.Cached; {
			// it is stored by and by
			time.Sleep(time.Millisecond)
		}
		h := in.Health()
		fmt.Fprintf(out, "%-28s charged %d time, %d repeats, %d of these known to Redis\n", what+":", charges,
			h.Duplicates, h.Cached)
		return nil
	}
	steps := []struct {
		what   string
		before func()
	}{{"delivered", nil}, {"again", nil}, {"Redis is flushed, and again", server.FlushAll}, {"again", nil},
		{"Redis is gone, and again", server.Close}}
	for _, step := range steps {
		if step.before != nil {
			step.before()
		}
		if err := deliver(step.what); err != nil {
			return err
		}
	}
	return nil
}
