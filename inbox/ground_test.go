package inbox_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/internal/pgbed"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
	"github.com/skald-go/skald/store/sqlitestore"
)

// ground is a consumer's database of any kind, with a user table of named lists.
type ground[TTx comparable] struct {
	db     store.Driver[TTx]
	schema string                                // of PostgreSQL
	pool   *pgxpool.Pool                         // of PostgreSQL
	note   func(tx TTx, list, what string) error // appends to a list
	user   func() (map[string]string, error)
	pass   func(d time.Duration) error // for times by the database's own clock
}

// opening creates an empty ground for each world.
type opening[TTx comparable] func(w *world) *ground[TTx]

func inMemory(w *world) *ground[tx] {
	return &ground[tx]{db: w.db, note: note,
		user: func() (map[string]string, error) { return w.db.User(), nil },
		pass: func(time.Duration) error { return nil }}
}

// passes moves the clocks of the inbox and its database.
func (g *ground[TTx]) passes(w *world, d time.Duration) {
	w.t.Helper()
	w.pass(d)
	if err := g.pass(d); err != nil {
		w.t.Fatal(err)
	}
}

// lists returns the user's lists.
func (g *ground[TTx]) lists(t *testing.T) map[string]string {
	t.Helper()
	all, err := g.user()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// onSQLite has a file for each world. Each is a copy of one file, because creating the tables takes longer
// than most tests.
func onSQLite(t *testing.T) opening[*sql.Tx] {
	t.Helper()
	within, n := scratch(t), 0
	made := filepath.Join(within, "made.db")
	db := opened(t, made)
	_, err := sqlitestore.Migrate(t.Context(), db, nil)
	if err == nil {
		_, err = db.ExecContext(t.Context(),
			`CREATE TABLE own (list TEXT PRIMARY KEY, told TEXT NOT NULL) STRICT`)
	}
	if err == nil {
		err = db.Close() // the last close moves the WAL into the file
	}
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(made)
	if err != nil {
		t.Fatal(err)
	}
	return func(w *world) *ground[*sql.Tx] {
		n++
		at := filepath.Join(within, fmt.Sprint(n, ".db"))
		if err := os.WriteFile(at, file, 0o600); err != nil {
			w.t.Fatal(err)
		}
		return groundOf(opened(w.t, at))
	}
}

// scratch returns a folder with cheap writes: the tests do not test the disk.
func scratch(t *testing.T) string {
	t.Helper()
	if dir, err := os.MkdirTemp("/dev/shm", "skald"); err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		return dir
	}
	return t.TempDir()
}

func opened(t *testing.T, at string) *sql.DB {
	t.Helper()
	db, err := sqlitestore.Open(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func groundOf(db *sql.DB) *ground[*sql.Tx] {
	return &ground[*sql.Tx]{
		db: sqlitestore.New(db, nil),
		note: func(tx *sql.Tx, list, what string) error {
			_, err := tx.Exec(`INSERT INTO own AS o VALUES (?1, ?2) ON CONFLICT (list) DO UPDATE SET told = o.told || ' ' || excluded.told`, list, what)
			return err
		},
		user: func() (map[string]string, error) {
			rows, err := db.Query(`SELECT list, told FROM own`)
			if err != nil {
				return nil, err
			}
			defer func() { _ = rows.Close() }()
			all := map[string]string{}
			for rows.Next() {
				var list, told string
				if err := rows.Scan(&list, &told); err != nil {
					return nil, err
				}
				all[list] = told
			}
			return all, rows.Err()
		},
		pass: func(d time.Duration) error {
			_, err := db.Exec(`UPDATE skald_parked SET due = due - ?1`, d.Milliseconds())
			return err
		},
	}
}

// onPostgres has one schema, which is reset for each world.
func onPostgres(t *testing.T) opening[pgx.Tx] {
	t.Helper()
	ctx, schema := context.Background(), "inbox_"+strings.ToLower(rand.Text()[:10])
	in := func(q string) string { return strings.ReplaceAll(q, "/*schema*/", schema+".") }
	pool, err := pgxpool.New(ctx, need.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE"); err != nil {
			t.Error(err)
		}
		go pool.Close() // which waits for transactions that a failed test left open
	})
	_, err = pgstore.Migrate(ctx, pool, &pgstore.MigrateOptions{Schema: schema})
	if err == nil {
		_, err = pool.Exec(ctx, in(`CREATE TABLE /*schema*/own (list text PRIMARY KEY, told text NOT NULL)`))
	}
	if err != nil {
		t.Fatal(err)
	}
	made := pgbed.Keep(t, pgbed.Over(pool), schema)
	return func(w *world) *ground[pgx.Tx] {
		made.Anew(w.t)
		return &ground[pgx.Tx]{
			db:     pgstore.New(pool, &pgstore.Options{Schema: schema}),
			schema: schema,
			pool:   pool,
			note: func(tx pgx.Tx, list, what string) error {
				_, err := tx.Exec(ctx,
					in(`INSERT INTO /*schema*/own AS o VALUES ($1, $2) ON CONFLICT (list) DO UPDATE SET told = o.told || ' ' || excluded.told`), list, what)
				return err
			},
			user: func() (map[string]string, error) {
				all, list, told := map[string]string{}, "", ""
				// its error is ForEachRow's, too
				rows, _ := pool.Query(ctx, in(`SELECT list, told FROM /*schema*/own`))
				_, err := pgx.ForEachRow(rows, []any{&list, &told}, func() error {
					all[list] = told
					return nil
				})
				return all, err
			},
			pass: func(d time.Duration) error {
				_, err := pool.Exec(ctx,
					in(`UPDATE /*schema*/skald_parked SET due = due - $1::bigint * interval '1 microsecond'`),
					d.Microseconds())
				return err
			},
		}
	}
}
