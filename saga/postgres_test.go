package saga_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store/pgstore"
)

// onPostgres returns a schema with Skald's tables and a ledger, on an available server.
func onPostgres(t *testing.T) (*pgxpool.Pool, *pgstore.Store, string) {
	t.Helper()
	ctx, schema := context.Background(), "saga_"+strings.ToLower(rand.Text()[:10])
	pool, err := pgxpool.New(ctx, need.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE"); err != nil {
			t.Error(err)
		}
		pool.Close()
	})
	if _, err := pgstore.Migrate(ctx, pool, &pgstore.MigrateOptions{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(ctx, "CREATE TABLE "+schema+".ledger (key text, step text)"); err != nil {
		t.Fatal(err)
	}
	return pool, pgstore.New(pool, &pgstore.Options{Schema: schema}), schema
}

// pgLedger is ledger on PostgreSQL. Its table has no unique key, so a repeated write is visible.
func pgLedger(schema, name string,
	before func(ctx context.Context, tx pgx.Tx, r saga.Run[trip]) error) *saga.Step[trip, string] {
	do := func(ctx context.Context, tx pgx.Tx, r saga.Run[trip]) (string, error) {
		if _, err := tx.Exec(ctx, "INSERT INTO "+schema+".ledger VALUES ($1, $2)", r.Key, name); err != nil {
			return "", err
		}
		if before != nil {
			if err := before(ctx, tx, r); err != nil {
				return "", err
			}
		}
		if r.In.Fail[name] == "reject" {
			return "", skald.Reject(errors.New("no"))
		}
		return name, nil
	}
	undo := func(ctx context.Context, tx pgx.Tx, r saga.Run[trip], out string) error {
		_, err := tx.Exec(ctx, "DELETE FROM "+schema+".ledger WHERE key = $1 AND step = $2", r.Key, out)
		return err
	}
	return saga.Do(name, do, undo, saga.Retry(saga.Policy{InitialInterval: time.Millisecond}))
}

func pgRun(t *testing.T, e *saga.Engine[pgx.Tx]) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func pgStart(t *testing.T, pool *pgxpool.Pool, e *saga.Engine[pgx.Tx], d *saga.Definition[trip],
	in trip) (s saga.Started, err error) {
	t.Helper()
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		s, err = saga.Bind(e, d).Start(t.Context(), tx, in)
		return err
	})
	return s, err
}

func pgEngine(t *testing.T, db *pgstore.Store, o saga.EngineOptions, d saga.Defined) *saga.Engine[pgx.Tx] {
	t.Helper()
	o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	e, err := saga.NewEngine(db, &o, d)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func pgRows(t *testing.T, pool *pgxpool.Pool, schema, key string) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM "+schema+".ledger WHERE key = $1",
		key).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestPostgres: two engines run many sagas on PostgreSQL, half of which turn back. Rivals start each saga,
// and one succeeds.
func TestPostgres(t *testing.T) {
	t.Parallel()
	pool, db, schema := onPostgres(t)
	d := saga.New("trip", &saga.Options[trip]{Key: tripKey}, pgLedger(schema, "flight", nil),
		pgLedger(schema, "hotel", nil), pgLedger(schema, "car", nil))
	one, two := pgEngine(t, db, saga.EngineOptions{}, d),
		pgEngine(t, pgstore.New(pool, &pgstore.Options{Schema: schema}), saga.EngineOptions{}, d)
	pgRun(t, one)
	pgRun(t, two)
	const sagas = 30
	var fresh atomic.Int64
	var wg sync.WaitGroup
	in := func(i int) trip {
		out := trip{ID: fmt.Sprint("t-", i)}
		if i%2 == 1 {
			out.Fail = map[string]string{"car": "reject"}
		}
		return out
	}
	for i := range sagas {
		for _, e := range []*saga.Engine[pgx.Tx]{one, two} {
			wg.Go(func() {
				s, err := pgStart(t, pool, e, d, in(i))
				if err != nil {
					t.Error(err)
				}
				if s.New {
					fresh.Add(1)
				}
			})
		}
	}
	wg.Wait()
	if n := fresh.Load(); n != sagas {
		t.Errorf("%d sagas were started", n)
	}
	for i := range sagas {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		end, err := saga.Bind(one, d).Await(ctx, fmt.Sprint("t-", i))
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{true: 3, false: 0}[i%2 == 0]; end.Done != (i%2 == 0) ||
			pgRows(t, pool, schema, fmt.Sprint("t-", i)) != want {
			t.Errorf("t-%d ended as %+v with %d rows", i, end, pgRows(t, pool, schema, fmt.Sprint("t-", i)))
		}
	}
	_, err := pgStart(t, pool, one, d, trip{ID: "t-0", Fail: map[string]string{"x": "y"}})
	if !errors.As(err, new(*saga.OtherError)) {
		t.Errorf("another input: %v", err)
	}
}

// TestPostgresFences: an engine that is cut off within a step loses its saga to another engine, and writes
// nothing when it continues.
func TestPostgresFences(t *testing.T) {
	t.Parallel()
	pool, db, schema := onPostgres(t)
	var first atomic.Bool
	cut, wake := make(chan uint32, 1), make(chan struct{})
	hotel := pgLedger(schema, "hotel", func(_ context.Context, tx pgx.Tx, _ saga.Run[trip]) error {
		if first.CompareAndSwap(false, true) {
			cut <- tx.Conn().PgConn().PID()
			<-wake
		}
		return nil
	})
	d := saga.New("trip", &saga.Options[trip]{Key: tripKey}, pgLedger(schema, "flight", nil), hotel,
		pgLedger(schema, "car", nil))
	one := pgEngine(t, db, saga.EngineOptions{Lease: time.Second}, d)
	pgRun(t, one)
	if _, err := pgStart(t, pool, one, d, trip{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	pid := <-cut
	two := pgEngine(t, pgstore.New(pool, &pgstore.Options{Schema: schema}),
		saga.EngineOptions{Lease: time.Second}, d)
	pgRun(t, two)
	if _, err := pool.Exec(t.Context(), "SELECT pg_terminate_backend($1)", int32(pid)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	end, err := saga.Bind(two, d).Await(ctx, "a")
	if err != nil || !end.Done {
		t.Fatalf("it ended as %+v, %v", end, err)
	}
	close(wake)
	if n := pgRows(t, pool, schema, "a"); n != 3 {
		t.Errorf("%d rows", n)
	}
	// An engine counts a saga after the commit, so Await may return first. On a slow machine a lease is
	// taken over more than once.
	for one.Health().Done+two.Health().Done == 0 && ctx.Err() == nil {
		<-time.After(5 * time.Millisecond)
	}
	if a, b := one.Health(), two.Health(); a.Done+b.Done != 1 || b.Done > b.TakenOver {
		t.Errorf("the engines: %+v, %+v", a, b)
	}
}
