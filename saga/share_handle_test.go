package saga_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// TestSharedTransactionIsRevoked: after a function has returned, its savepoints and goroutines cannot
// change its writes, or those of the next step in the transaction. A step that leaves a savepoint has its
// own commit.
func TestSharedTransactionIsRevoked(t *testing.T) {
	pool, db, schema := onPostgres(t)
	k := newSharing(newDesk(t, store.Driver[pgx.Tx](db)))
	write := func(ctx context.Context, tx pgx.Tx, what string) error {
		_, err := tx.Exec(ctx, "INSERT INTO "+schema+".ledger VALUES ('k', $1)", what)
		return err
	}
	var left pgx.Tx // left by the first step
	var late error
	ended := make(chan bool, 1)
	say := skald.Draft{Topic: "packing", Type: "pack", Key: []byte("late"), Value: "late"}
	savepoint := func(ctx context.Context, tx pgx.Tx) (err error) {
		left, err = tx.Begin(ctx)
		return errors.Join(err, write(ctx, left, "a"))
	}
	keeps := func(ctx context.Context, tx pgx.Tx) error {
		left = tx
		return write(ctx, tx, "a")
	}
	for name, c := range map[string]struct {
		a, b    func(ctx context.Context, tx pgx.Tx) error
		commits int
		told    error
	}{
		"its context rolls a savepoint back": {func(ctx context.Context, tx pgx.Tx) error {
			context.AfterFunc(ctx, func() {
				late = left.Rollback(context.WithoutCancel(ctx))
				ended <- true
			})
			return savepoint(ctx, tx)
		}, func(context.Context, pgx.Tx) error { <-ended; return nil }, 2, pgx.ErrTxClosed},
		"a savepoint": {savepoint, func(ctx context.Context, _ pgx.Tx) error {
			late = left.Rollback(ctx)
			return nil
		}, 2, pgx.ErrTxClosed},
		"a savepoint in SQL": {func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "savepoint s")
			return errors.Join(err, write(ctx, tx, "a"))
		}, func(ctx context.Context, tx pgx.Tx) error {
			own, err := tx.Begin(ctx)
			if err == nil {
				if _, err = own.Exec(ctx, "ROLLBACK TO SAVEPOINT s"); err == nil {
					return errors.New("it rolls the savepoint of another step back")
				}
				late, err = nil, own.Rollback(ctx)
			}
			return err
		}, 3, nil},
		"a savepoint that is released": {func(ctx context.Context, tx pgx.Tx) error {
			return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return write(ctx, tx, "a") })
		}, func(context.Context, pgx.Tx) error { late = nil; return nil }, 1, nil},
		"a late write": {keeps, func(ctx context.Context, _ pgx.Tx) error {
			late = write(ctx, left, "late")
			return nil
		}, 1, pgx.ErrTxClosed},
		"a late message": {keeps, func(ctx context.Context, _ pgx.Tx) error {
			late = k.out.Write(ctx, left, say)
			return nil
		}, 1, pgx.ErrTxClosed},
	} {
		if _, err := pool.Exec(t.Context(), "TRUNCATE "+schema+".ledger"); err != nil {
			t.Fatal(err)
		}
		step := func(name string, f func(context.Context, pgx.Tx) error) *saga.Step[order, struct{}] {
			return saga.Exec(name, func(ctx context.Context, tx pgx.Tx, _ saga.Run[order]) error {
				return f(ctx, tx)
			}, nil, saga.NoEffect())
		}
		told, n := k.run(order{ID: name}, step("a", c.a), step("b", c.b), k.step("c"))
		if len(told) != 1 || n != c.commits || !errors.Is(late, c.told) {
			t.Errorf("%s: messages %v in %d commits, late: %v", name, told, n, late)
		}
		if got := pgWrote(t, pool, schema); got != "k a" {
			t.Errorf("%s: left %q", name, got)
		}
	}
}

// TestHangsInASharedTransaction: a function that ignores its context in a shared transaction keeps no
// locks, neither of the saga nor of the steps before it. Its writes are discarded, and only its own attempt
// counts.
func TestHangsInASharedTransaction(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		db := memstore.New(nil)
		hangsShared(t, db, func(_ context.Context, tx tx, r saga.Run[trip], step string) error {
			return tx.Update("row", func(old string, _ bool) string { return old + r.Key + step + " " })
		}, func() string { return db.User()["row"] })
	})
	t.Run("postgres", func(t *testing.T) {
		pool, db, schema := onPostgres(t)
		if _, err := pool.Exec(t.Context(), "INSERT INTO "+schema+".ledger VALUES ('row', '')"); err != nil {
			t.Fatal(err)
		}
		hangsShared(t, db, func(ctx context.Context, tx pgx.Tx, r saga.Run[trip], step string) error {
			_, err := tx.Exec(ctx, "UPDATE "+schema+".ledger SET step = step || $1", r.Key+step+" ")
			return err
		}, func() string { return strings.TrimPrefix(pgWrote(t, pool, schema), "row ") })
	})
}

func hangsShared[TTx any](t *testing.T, db store.Driver[TTx],
	write func(ctx context.Context, tx TTx, r saga.Run[trip], step string) error, row func() string) {
	var began atomic.Int64
	end, hangs := make(chan bool), make(chan bool)
	step := func(name string, o ...saga.Option) *saga.Step[trip, struct{}] {
		return saga.Exec(name, func(ctx context.Context, tx TTx, r saga.Run[trip]) error {
			if name == "b" && r.Key == "h" && began.Add(1) == 1 {
				close(hangs)
				<-end
			}
			return write(ctx, tx, r, name)
		}, nil, append(o, saga.NoEffect())...)
	}
	flow := func(name string, timeout time.Duration) *saga.Definition[trip] {
		return saga.New(name, &saga.Options[trip]{Key: tripKey}, step("a", saga.Timeout(time.Minute)),
			step("b", saga.Retry(saga.Policy{Attempts: 2, InitialInterval: time.Millisecond,
				Timeout: timeout})))
	}
	// Only the attempt that hangs has a short timeout: on a slow machine the others may take a while.
	hanging, patient := flow("hangs", time.Millisecond), flow("hangs", time.Minute)
	quick := flow("quick", time.Minute)
	engine := func(ds ...saga.Defined) *saga.Engine[TTx] {
		e, err := saga.NewEngine(db, &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler)}, ds...)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e, ctx := engine(hanging, quick), t.Context()
	run, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- e.Run(run) }()
	if _, err := saga.Bind(e, hanging).StartNow(ctx, trip{ID: "h"}); err != nil {
		t.Fatal(err)
	}
	<-hangs
	rivals := saga.Bind(e, quick)
	if _, err := rivals.StartNow(ctx, trip{ID: "q"}); err != nil { // it waits for a's row
		t.Fatal(err)
	}
	if _, err := rivals.Await(ctx, "q"); err != nil {
		t.Error(err)
	}
	var is store.Saga
	for is.Failed == 0 {
		ss, err := store.ListSagas(ctx, db, store.SagaQuery{Key: "h"})
		if err != nil {
			t.Fatal(err)
		}
		is = ss[0]
		time.Sleep(10 * time.Millisecond)
	}
	if is.Failed != 1 || is.Step != "b" || !strings.Contains(is.Error, "ignores its context") {
		t.Errorf("its state is %+v", is.SagaStatus)
	}
	stop()
	other := engine(patient)
	go func() { _ = other.Run(ctx) }()
	if end, err := saga.Bind(other, patient).Await(ctx, "h"); err != nil || !end.Done {
		t.Errorf("it ended as %+v, %v", end, err)
	}
	close(end)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := strings.Fields(row()); len(got) != 4 || strings.Count(row(), "ha ") != 1 ||
		strings.Count(row(), "hb ") != 1 {
		t.Errorf("left %q", got)
	}
}

// pgWrote returns the rows of pgLedger's table.
func pgWrote(t *testing.T, pool *pgxpool.Pool, schema string) (rows string) {
	t.Helper()
	err := pool.QueryRow(t.Context(), "SELECT coalesce(string_agg(key || ' ' || step, ', ' ORDER BY ctid), '') FROM "+
		schema+".ledger").Scan(&rows)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}
