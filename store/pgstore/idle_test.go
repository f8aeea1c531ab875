package pgstore

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/pgbed"
	"github.com/skald-go/skald/store"
)

// idlePool returns a pool of one connection through p.
func (b *bed) idlePool(t *testing.T, p *pgbed.IdleProxy, mode pgx.QueryExecMode) *pgxpool.Pool {
	t.Helper()
	return (&wire{at: p.Listener}).pool(t, b, mode)
}

// bounded fails t for each transaction that could be idle forever. mayBegin allows a transaction that has
// only begun, because it has no locks: some drivers send BEGIN separately.
func bounded(t *testing.T, p *pgbed.IdleProxy, name string, mayBegin bool) (asked int) {
	t.Helper()
	after, asked := p.Unbounded()
	for _, text := range after {
		if !mayBegin || !strings.HasPrefix(text, "begin") || strings.Contains(text, ";") {
			t.Errorf("%s: a process that is paused after %q keeps its transaction forever", name, text)
			break
		}
	}
	return asked
}

// TestNoTransactionIsIdleForever checks that no transaction of Skald is idle at the server without a limit
// between any two round trips: a paused process would keep its locks.
func TestNoTransactionIsIdleForever(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := context.Background()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec,
		pgx.QueryExecModeSimpleProtocol} {
		b.clear(t)
		p := pgbed.NewIdleProxy(t, b.url)
		s := New(b.idlePool(t, p, mode), &Options{Schema: b.schema})
		for _, c := range tripCases(ctx, t, b, s) {
			for range 2 { // the second one has its statements prepared
				if c.do(); strings.Contains(c.name, "caller's transaction") {
					p.Unbounded()
				}
				bounded(t, p, mode.String()+": "+c.name, false)
			}
		}
		loseGuards(ctx, t, b, s)
		if bounded(t, p, mode.String()+": guards that are lost", false) == 0 {
			t.Error("the proxy has asked nothing")
		}
	}
}

// TestNoSQLTransactionIsIdleForever checks the same for database/sql, which sends BEGIN in its own round
// trip.
func TestNoSQLTransactionIsIdleForever(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx, p := context.Background(), pgbed.NewIdleProxy(t, b.url)
	db := stdlib.OpenDBFromPool(b.idlePool(t, p, pgx.QueryExecModeCacheStatement))
	s := NewSQL(db, &Options{Schema: b.schema})
	for range 2 {
		u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{aMark()},
			Locks: []store.Lock{{Space: "order", Key: "a"}}})
		if err != nil {
			t.Fatal(err)
		}
		err = s.Write(ctx, u.Tx(), store.Effect{Rows: []skald.Message{aMessage("a")}})
		if err != nil {
			t.Fatal(err)
		}
		if err := u.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		bounded(t, p, "a message", true) // the first one prepares its statements
		loseGuards(ctx, t, b, s)
		bounded(t, p, "guards that are lost", false)
	}
}

// loseGuards applies effects of which some lose their guard, so that they are sent one by one.
func loseGuards(ctx context.Context, t *testing.T, b *bed, s interface {
	Apply(ctx context.Context, es ...store.Effect) ([]bool, error)
}) {
	t.Helper()
	stale := func(key string) *store.Lock { return &store.Lock{Space: "order", Key: key, Version: 99} }
	apply := func(es ...store.Effect) {
		t.Helper()
		stored, err := s.Apply(ctx, es...)
		if err != nil || stored[0] || !stored[1] {
			t.Fatalf("stored %v, want only the second: %v", stored, err)
		}
	}
	mark := aMark()
	apply(store.Effect{Locks: []store.Lock{*stale("a")}, Rows: []skald.Message{aMessage("a")}},
		store.Effect{Mark: &mark, Rows: []skald.Message{aMessage("a")}})
	move := b.saga(ctx, t)
	lost := move
	lost.SagaRef = store.SagaRef{Name: "order", Key: "there is none", Version: 9}
	apply(store.Effect{Saga: &lost, Rows: []skald.Message{aMessage("a")}},
		store.Effect{Saga: &move, Rows: []skald.Message{aMessage("a")}})
}

// saga starts a saga and returns its next move.
func (b *bed) saga(ctx context.Context, t *testing.T) store.SagaUpdate {
	t.Helper()
	key := aMark().ID
	one := store.Saga{Name: "order", Key: key, ID: key, Hash: "h", Input: "{}", State: "{}", Session: "a",
		Lease: time.Minute, SagaStatus: store.SagaStatus{Status: "running"}}
	s := b.store(t)
	if err := pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		_, _, err := s.StartSagas(ctx, tx, one)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return store.SagaUpdate{SagaRef: store.SagaRef{Name: "order", Key: key, Version: 1}, State: "{}",
		SagaStatus: one.SagaStatus}
}

// TestNoMigrationIsIdleForever checks that a paused migration blocks others only for its limit.
func TestNoMigrationIsIdleForever(t *testing.T) {
	t.Parallel()
	b := bare(t)
	ctx, p := context.Background(), pgbed.NewIdleProxy(t, b.url)
	pool := b.idlePool(t, p, pgx.QueryExecModeCacheStatement)
	for range 2 {
		if _, err := Pending(ctx, pool, &MigrateOptions{Schema: b.schema}); err != nil {
			t.Fatal(err)
		}
		if _, err := Migrate(ctx, pool, &MigrateOptions{Schema: b.schema, Source: "/idle"}); err != nil {
			t.Fatal(err)
		}
	}
	bounded(t, p, "migrations", true)
	if _, err := Resize(ctx, pool, &ResizeOptions{Schema: b.schema, Outbox: 40}); err != nil {
		t.Fatal(err)
	}
	bounded(t, p, "resize", true)
}

// TestAnAbortedTransactionHoldsNothing checks that PostgreSQL removes the limit of an aborted transaction,
// which then has no lock, snapshot or transaction number.
func TestAnAbortedTransactionHoldsNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx, s := context.Background(), b.store(t)
	u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{aMark()},
		Locks: []store.Lock{{Space: "order", Key: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = u.Rollback(ctx) }()
	held := func() (n int) {
		t.Helper()
		if err := b.pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM pg_locks AS l WHERE l.pid = a.pid)
			+ (a.backend_xid IS NOT NULL)::integer + (a.backend_xmin IS NOT NULL)::integer
			FROM pg_stat_activity AS a WHERE pid = $1`,
			u.(*unit).conn.PgConn().PID()).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if held() == 0 {
		t.Fatal("a transaction with a mark and a lock holds nothing")
	}
	if _, err := u.Tx().Exec(ctx, "SELECT 1/0"); err == nil {
		t.Fatal("the handler divides by zero")
	}
	if n := held(); n > 0 {
		t.Errorf("the aborted transaction holds %d things", n)
	}
}
