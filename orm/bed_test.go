package orm

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/internal/pgbed"
	"github.com/skald-go/skald/store/pgstore"
	"github.com/skald-go/skald/store/storetest"
)

// A bed is a database of a test's own, with Skald's tables and one of the user's.
type bed struct {
	url  string
	conn *pgx.Conn // beside the driver
	*pgbed.Tables
}

func newBed(t testing.TB) *bed {
	t.Helper()
	server := need.Postgres(t)
	name := "orm_" + strings.ToLower(rand.Text()[:10])
	admin := connect(t, server)
	execute(t, admin, "CREATE DATABASE "+name)
	t.Cleanup(func() { execute(t, admin, "DROP DATABASE "+name+" WITH (FORCE)") })
	b := &bed{url: in(t, server, name)}
	b.conn = connect(t, b.url)
	if _, err := pgstore.Migrate(context.Background(), b.conn,
		&pgstore.MigrateOptions{Source: storetest.Source}); err != nil {
		t.Fatal(err)
	}
	execute(t, b.conn, "CREATE TABLE orders (id text PRIMARY KEY, cents bigint NOT NULL)")
	execute(t, b.conn, "CREATE TABLE kv (key text PRIMARY KEY, value text)")
	b.Tables = pgbed.New(t, pgbed.Over(b.conn), "public")
	return b
}

// in is the URL of another database on the same server.
func in(t testing.TB, server, database string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + database
	return u.String()
}

func connect(t testing.TB, at string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func execute(t testing.TB, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(context.Background(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// open opens the database by database/sql.
func (b *bed) open(t testing.TB, driver string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, b.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// clear makes the bed as it was made.
func (b *bed) clear(t testing.TB) {
	t.Helper()
	execute(t, b.conn,
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	b.Made.Anew(t)
}

func one[T any](t testing.TB, b *bed, statement string, args ...any) (v T) {
	t.Helper()
	if err := b.conn.QueryRow(context.Background(), statement, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return v
}
