package sagatest_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

var (
	asked    = skald.Event[int]{Topic: "asked", Type: "asked"}
	answered = skald.Event[int]{Topic: "answered", Type: "answered"}
)

// TestAllComponentsShareFewConnections: a service with all components, and its own writers, uses one pool. No
// component holds a connection while it waits for a second connection. So they cannot deadlock, even with few
// connections. The pool limits the connections of all components together.
func TestAllComponentsShareFewConnections(t *testing.T) {
	t.Parallel()
	for _, most := range []int32{1, 2, 3} {
		t.Run(fmt.Sprintf("pgx %d", most), func(t *testing.T) {
			t.Parallel()
			pool, schema := fewConnections(t, most)
			allStations(t, pool, schema, pgstore.New(pool, &pgstore.Options{Schema: schema}),
				func(ctx context.Context, do func(pgx.Tx) error) error {
					return pgx.BeginFunc(ctx, pool, do)
				})
			if n := pool.Stat().MaxConns(); n != most {
				t.Errorf("the pool has %d connections", n)
			}
		})
		t.Run(fmt.Sprintf("database/sql %d", most), func(t *testing.T) {
			t.Parallel()
			pool, schema := fewConnections(t, most)
			db := stdlib.OpenDBFromPool(pool)
			allStations(t, pool, schema, pgstore.NewSQL(db, &pgstore.Options{Schema: schema}),
				func(ctx context.Context, do func(*sql.Tx) error) error {
					tx, err := db.BeginTx(ctx, nil)
					if err != nil {
						return err
					}
					if err := do(tx); err != nil {
						return errors.Join(err, tx.Rollback())
					}
					return tx.Commit()
				})
		})
	}
}

// fewConnections returns a schema with Skald's tables, and a pool with at most that many connections.
func fewConnections(t *testing.T, most int32) (*pgxpool.Pool, string) {
	t.Helper()
	ctx := context.Background()
	schema := "few_" + strings.ToLower(rand.Text()[:10])
	config, err := pgxpool.ParseConfig(need.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = most
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := pool.Exec(ctx, "DROP SCHEMA "+schema+" CASCADE"); err != nil {
			t.Error(err)
		}
		pool.Close()
	})
	if _, err := pgstore.Migrate(ctx, pool, &pgstore.MigrateOptions{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	return pool, schema
}

func allStations[TTx any](t *testing.T, pool *pgxpool.Pool, schema string, db store.Driver[TTx],
	begin func(context.Context, func(TTx) error) error) {
	const writers, each = 4, 25
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	bus := membroker.New(nil)
	if err := bus.MakeTopics(ctx, 4, asked.Topic, answered.Topic); err != nil {
		t.Fatal(err)
	}
	out, in := outbox.New(db, nil), inbox.New(db, bus.Client(), "all",
		&inbox.Options{Workers: 8, Retry: inbox.Retry{InitialInterval: time.Millisecond},
			Logger: slog.New(slog.DiscardHandler)})
	var failed sync.Map
	inbox.On(in, asked, func(ctx context.Context, tx TTx, m skald.Received[int]) error {
		if _, again := failed.LoadOrStore(m.ID, true); !again && m.Value%5 == 0 {
			return errors.New("the first try fails")
		}
		if m.Value%7 == 0 {
			return skald.Reject(errors.New("no"), answered.New(string(m.Key), -m.Value))
		}
		return out.Write(ctx, tx, answered.New(string(m.Key), m.Value))
	})
	inbox.On(in, answered, func(context.Context, TTx, skald.Received[int]) error { return nil })
	done := make(chan error, 1)
	running, end := context.WithCancel(ctx)
	go func() { done <- skald.Run(running, in, relay.New(db, bus.Client(), nil)) }()
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for n := range each {
				err := begin(ctx,
					func(tx TTx) error {
						return out.Write(ctx, tx,
							asked.New(fmt.Sprint("k", n%6), w*each+n))
					})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	for finished := 0; finished != 2*writers*each; {
		if err := pool.QueryRow(ctx, "SELECT count(*) FROM "+schema+
			".skald_mark").Scan(&finished); err != nil {
			t.Fatalf("%d of %d messages are finished: %v", finished, 2*writers*each, err)
		}
		select {
		case err := <-done:
			t.Fatalf("they ended: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	end()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
