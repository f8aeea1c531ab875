package lock_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/lock"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store/pgstore"
	"github.com/skald-go/skald/store/sqlitestore"
)

// pool creates a schema with Skald's tables and an account of 0 cents.
func pool(t *testing.T) (*pgxpool.Pool, *pgstore.Options) {
	t.Helper()
	p, err := pgxpool.New(t.Context(), need.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	schema := "lock_" + strings.ToLower(rand.Text()[:10])
	t.Cleanup(func() {
		_, err := p.Exec(context.Background(), "DROP SCHEMA "+schema+" CASCADE")
		if p.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := pgstore.Migrate(t.Context(), p, &pgstore.MigrateOptions{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	account(t, schema+".",
		func(statement string) error { _, err := p.Exec(t.Context(), statement); return err })
	return p, &pgstore.Options{Schema: schema}
}

func account(t *testing.T, prefix string, exec func(statement string) error) {
	t.Helper()
	if err := errors.Join(exec("CREATE TABLE "+prefix+"account (cents bigint NOT NULL)"),
		exec("INSERT INTO "+prefix+"account VALUES (0)")); err != nil {
		t.Fatal(err)
	}
}

func TestStores(t *testing.T) {
	t.Run("pgx", func(t *testing.T) {
		p, o := pool(t)
		rivals(t, pgstore.New(p, o),
			func(ctx context.Context, tx pgx.Tx, statement string, into ...any) error {
				statement = strings.ReplaceAll(statement, "account", o.Schema+".account")
				if len(into) > 0 {
					return tx.QueryRow(ctx, statement).Scan(into...)
				}
				_, err := tx.Exec(ctx, statement)
				return err
			})
	})
	t.Run("database/sql", func(t *testing.T) {
		p, o := pool(t)
		db := stdlib.OpenDBFromPool(p)
		t.Cleanup(func() { _ = db.Close() })
		rivals(t, pgstore.NewSQL(db, o), bySQL(o.Schema+"."))
	})
	t.Run("sqlite", func(t *testing.T) {
		db, err := sqlitestore.Open(filepath.Join(t.TempDir(), "db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		if _, err := sqlitestore.Migrate(t.Context(), db, nil); err != nil {
			t.Fatal(err)
		}
		account(t, "",
			func(statement string) error { _, err := db.ExecContext(t.Context(), statement); return err })
		rivals(t, sqlitestore.New(db, nil), bySQL(""))
	})
}

func bySQL(prefix string) func(context.Context, *sql.Tx, string, ...any) error {
	return func(ctx context.Context, tx *sql.Tx, statement string, into ...any) error {
		statement = strings.ReplaceAll(statement, "account", prefix+"account")
		if len(into) > 0 {
			return tx.QueryRowContext(ctx, statement).Scan(into...)
		}
		_, err := tx.ExecContext(ctx, statement)
		return err
	}
}

// rivals increments the balance concurrently, by a read and a write. Without the lock most updates would be
// lost. Each key is used twice.
func rivals[TTx any](t *testing.T, db once.Store[TTx],
	do func(ctx context.Context, tx TTx, statement string, into ...any) error) {
	const n = 8
	var wg sync.WaitGroup
	for i := range 2 * n {
		es := []lock.Entity{order, stock}
		if i%2 == 1 {
			es = []lock.Entity{stock, order}
		}
		wg.Go(func() {
			_, _, err := lock.Once(t.Context(), db, work(fmt.Sprint(i%n), es...),
				func(ctx context.Context, tx TTx, _ lock.Tokens) (int, error) {
					var cents int
					if err := do(ctx, tx, "SELECT cents FROM account", &cents); err != nil {
						return 0, err
					}
					return cents, do(ctx, tx, fmt.Sprintf("UPDATE account SET cents = %d", cents+1))
				})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	held, err := lock.Take(t.Context(), db, order)
	if err != nil || held.Of("order", "7") != n+1 {
		t.Errorf("%d commits, then %v, %v", n, held, err)
	}
	w, cents := work("look"), 0
	w.Held = held
	look := func(ctx context.Context, tx TTx, _ lock.Tokens) (int, error) {
		return 0, do(ctx, tx, "SELECT cents FROM account", &cents)
	}
	if _, _, err := lock.Once(t.Context(), db, w, look); err != nil || cents != n {
		t.Errorf("%d cents, %v", cents, err)
	}
	w.Key = "again"
	var over *lock.OvertakenError
	if _, _, err := lock.Once(t.Context(), db, w, look); !errors.As(err, &over) || over.Found != n+2 {
		t.Errorf("with used tokens: %v", err)
	}
}
