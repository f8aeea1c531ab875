package saga_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store/pgstore"
)

// ownDatabase returns the URL of a new database with Skald's tables.
func ownDatabase(t *testing.T) string {
	t.Helper()
	server, err := url.Parse(need.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	admin, err := pgx.Connect(ctx, server.String())
	if err != nil {
		t.Fatal(err)
	}
	name := "idle_" + strings.ToLower(rand.Text()[:10])
	if _, err = admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, err := admin.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
		if err != nil {
			t.Error(err)
		}
		_ = admin.Close(ctx)
	})
	server.Path = "/" + name
	pool, err := pgxpool.New(ctx, server.String())
	if err == nil {
		_, err = pgstore.Migrate(ctx, pool, nil)
		pool.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return server.String()
}

// TestIdleReplicasCostLittle: an idle replica of an inbox and an engine begins one transaction in three
// seconds, and at most twice as many if their polls coincide. A pool of pgx adds a ping to each, which
// PostgreSQL counts as a transaction, too. The count of PostgreSQL is up to 10 s late, so a tracer counts.
func TestIdleReplicasCostLittle(t *testing.T) {
	const replicas, seconds = 10, 8
	at := ownDatabase(t)
	bus := membroker.New(nil)
	if err := bus.MakeTopics(t.Context(), 10, "orders"); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, replicas)
	t.Cleanup(func() {
		stop()
		for range replicas {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	var begun beginnings
	quiet := slog.New(slog.DiscardHandler)
	ready := make([]func() bool, replicas)
	for i := range replicas {
		config, err := pgxpool.ParseConfig(at)
		if err != nil {
			t.Fatal(err)
		}
		config.ConnConfig.Tracer = &begun
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		db := pgstore.New(pool, nil)
		in := inbox.New(db, bus, "stock", &inbox.Options{Logger: quiet})
		inbox.On(in, skald.Event[string]{Topic: "orders", Type: "placed"},
			func(context.Context, pgx.Tx, skald.Received[string]) error { return nil })
		e, err := saga.NewEngine(db, &saga.EngineOptions{Logger: quiet},
			saga.New("trip", &saga.Options[trip]{Key: tripKey}, pgLedger("public", "flight", nil)))
		if err != nil {
			t.Fatal(err)
		}
		ready[i] = func() bool { return in.Health().Ready && e.Health().Ready }
		go func() { ended <- skald.Run(ctx, in, e) }()
	}
	for _, is := range ready {
		for !is() {
			time.Sleep(20 * time.Millisecond)
		}
	}
	time.Sleep(4 * time.Second) // the cost of the start is over
	before := begun.Load()
	time.Sleep(seconds * time.Second)
	if n := begun.Load() - before; 3*n > 2*replicas*seconds {
		t.Errorf("%d replicas began %d transactions in %d s", replicas, n, seconds)
	}
}

// beginnings counts transactions.
type beginnings struct{ atomic.Int64 }

func (b *beginnings) TraceQueryStart(ctx context.Context, _ *pgx.Conn,
	_ pgx.TraceQueryStartData) context.Context {
	b.Add(1)
	return ctx
}

func (*beginnings) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (*beginnings) TraceBatchStart(ctx context.Context, _ *pgx.Conn,
	_ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (b *beginnings) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	if strings.HasPrefix(d.SQL, "begin") {
		b.Add(1)
	}
}

func (*beginnings) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
