package httpidem_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
	"github.com/skald-go/skald/store/pgstore"
	"github.com/skald-go/skald/store/sqlitestore"
)

type mem = *memstore.Tx

// ground is a database of any kind with a table of the user, which has lists by name.
type ground[TTx any] struct {
	db   store.Driver[TTx]
	note func(tx TTx, list, what string) error // appends to a list
	list func(list string) (string, error)
}

// wantList checks the content of a list in the user's table.
func (g *ground[TTx]) wantList(t *testing.T, list, want string) {
	t.Helper()
	if got, err := g.list(list); err != nil || got != want {
		t.Errorf("%s: %q, %v, want %q", list, got, err, want)
	}
}

func noteIn(tx mem, list, what string) error {
	old, _ := tx.Get(list)
	return tx.Put(list, strings.TrimPrefix(old+" "+what, " "))
}

func inMemory(*testing.T) *ground[mem] {
	db := memstore.New(nil)
	return &ground[mem]{db, noteIn, func(list string) (string, error) { return db.User()[list], nil }}
}

const (
	noteSQL = `INSERT INTO %sown AS o VALUES ($1, $2) ON CONFLICT (list) DO UPDATE SET told = o.told || ' ' || excluded.told`
	listSQL = `SELECT coalesce(max(told), '') FROM %sown WHERE list = $1`
)

func sqlNote(prefix string) func(*sql.Tx, string, string) error {
	return func(tx *sql.Tx, list, what string) error {
		_, err := tx.Exec(fmt.Sprintf(noteSQL, prefix), list, what)
		return err
	}
}

func sqlList(db *sql.DB, prefix string) func(string) (string, error) {
	return func(list string) (got string, err error) {
		err = db.QueryRow(fmt.Sprintf(listSQL, prefix), list).Scan(&got)
		return got, err
	}
}

func onSQLite(t *testing.T) *ground[*sql.Tx] {
	t.Helper()
	dir := t.TempDir()
	if shm, err := os.MkdirTemp("/dev/shm", "skald"); err == nil { // the test does not measure the disk
		t.Cleanup(func() { _ = os.RemoveAll(shm) })
		dir = shm
	}
	db, err := sqlitestore.Open(filepath.Join(dir, "s.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err = sqlitestore.Migrate(t.Context(), db, nil); err == nil {
		_, err = db.Exec(`CREATE TABLE own (list TEXT PRIMARY KEY, told TEXT NOT NULL) STRICT`)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &ground[*sql.Tx]{sqlitestore.New(db, nil), sqlNote(""), sqlList(db, "")}
}

// postgres creates a schema, and returns its name and a pool with this number of connections.
func postgres(t *testing.T, connections int32) (*pgxpool.Pool, string) {
	t.Helper()
	ctx, schema := context.Background(), "httpidem_"+strings.ToLower(rand.Text()[:10])
	config, err := pgxpool.ParseConfig(need.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = connections
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE"); err != nil {
			t.Error(err)
		}
		go pool.Close() // which waits for units that a failed test left open
	})
	if _, err = pgstore.Migrate(ctx, pool, &pgstore.MigrateOptions{Schema: schema}); err == nil {
		_, err = pool.Exec(ctx, "CREATE TABLE "+schema+".own (list text PRIMARY KEY, told text NOT NULL)")
	}
	if err != nil {
		t.Fatal(err)
	}
	return pool, schema
}

func onPgx(t *testing.T) *ground[pgx.Tx] {
	t.Helper()
	pool, schema := postgres(t, 4)
	return &ground[pgx.Tx]{
		pgstore.New(pool, &pgstore.Options{Schema: schema}),
		func(tx pgx.Tx, list, what string) error {
			_, err := tx.Exec(context.Background(), fmt.Sprintf(noteSQL, schema+"."), list, what)
			return err
		},
		func(list string) (got string, err error) {
			err = pool.QueryRow(context.Background(), fmt.Sprintf(listSQL, schema+"."), list).Scan(&got)
			return got, err
		},
	}
}

func onDatabaseSQL(t *testing.T) *ground[*sql.Tx] {
	t.Helper()
	pool, schema := postgres(t, 4)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { _ = db.Close() })
	return &ground[*sql.Tx]{pgstore.NewSQL(db, &pgstore.Options{Schema: schema}), sqlNote(schema + "."),
		sqlList(db, schema+".")}
}

// post is a request as a client sends it.
type post struct {
	key, body string
	header    http.Header
	path      string
}

func (p post) request() *http.Request {
	if p.path == "" {
		p.path = "/orders"
	}
	r := httptest.NewRequest(http.MethodPost, p.path, strings.NewReader(p.body))
	r.Header.Set("Content-Type", "application/json")
	if p.key != "" {
		r.Header.Set("Idempotency-Key", p.key)
	}
	for name, values := range p.header {
		r.Header[name] = values
	}
	return r
}

func (p post) to(h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, p.request())
	return w
}

// answers checks the status and the body of w. The body must contain the text body.
func answers(t *testing.T, w *httptest.ResponseRecorder, code int, body string) {
	t.Helper()
	if w.Code != code || !strings.Contains(w.Body.String(), body) {
		t.Errorf("%d %s, want %d %s", w.Code, w.Body, code, body)
	}
	if kind := w.Header().Get("Content-Type"); code >= 400 && kind != "application/problem+json" {
		t.Errorf("%d has the Content-Type %q", code, kind)
	}
}

// replayed checks whether w is a stored answer.
func replayed(t *testing.T, w *httptest.ResponseRecorder, want bool) {
	t.Helper()
	if got := w.Header().Get("Idempotent-Replayed") == "true"; got != want {
		t.Errorf("%d %s is replayed: %v, want %v", w.Code, w.Body, got, want)
	}
}
