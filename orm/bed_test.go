package orm

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store/pgstore"
	"github.com/skald-go/skald/store/storetest"
)

// A bed is a database of a test's own, with Skald's tables and one of the user's.
type bed struct {
	url  string
	conn *pgx.Conn // beside the driver
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
	if _, err := pgstore.Migrate(context.Background(), b.conn, &pgstore.MigrateOptions{Source: storetest.Source}); err != nil {
		t.Fatal(err)
	}
	execute(t, b.conn, "CREATE TABLE orders (id text PRIMARY KEY, cents bigint NOT NULL)")
	execute(t, b.conn, "CREATE TABLE kv (key text PRIMARY KEY, value text)")
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

func (b *bed) Get(t testing.TB, key string) (string, bool) {
	t.Helper()
	vs := one[[]string](t, b, "SELECT coalesce(array_agg(value), ARRAY[]::text[]) FROM kv WHERE key = $1", key)
	return strings.Join(vs, ","), len(vs) > 0
}

func (b *bed) Count(t testing.TB) storetest.Counts {
	t.Helper()
	return storetest.Counts{
		Rows:  one[int](t, b, "SELECT count(*) FROM skald_outbox"),
		Marks: one[int](t, b, "SELECT count(*) FROM (SELECT consumer, source, id::text FROM skald_mark UNION SELECT consumer, source, id FROM skald_mark_timeless) AS m"),
		Aside: one[int](t, b, "SELECT count(*) FROM skald_aside"),

		Audits: one[int](t, b, "SELECT count(*) FROM skald_audit"),
	}
}

// Age moves rows to the slot that they would be in, or to the oldest that the ring has.
func (b *bed) Age(t testing.TB, d time.Duration) {
	t.Helper()
	for _, statement := range []string{
		`UPDATE skald_outbox SET slot = (today - least((today - slot + 10) % 10 + $1, 8)) % 10
			FROM (SELECT floor(extract(epoch FROM now()) / 86400)::bigint AS today) AS c`,
		"UPDATE skald_mark_timeless SET at = at - $1 * interval '1 day'",
		"UPDATE skald_step SET at = at - $1 * interval '1 day'",
		"UPDATE skald_floor SET since = since - $1 * interval '1 day'",
		"UPDATE skald_quarantine SET taken_at = taken_at - $1 * interval '1 day'",
	} {
		if _, err := b.conn.Exec(context.Background(), statement, int(d/(24*time.Hour))); err != nil {
			t.Fatal(err)
		}
	}
}

func (b *bed) Known(t testing.TB) {
	t.Helper()
	execute(t, b.conn, "INSERT INTO skald_floor (consumer) SELECT DISTINCT consumer FROM skald_mark ON CONFLICT DO NOTHING")
	execute(t, b.conn, "UPDATE skald_floor SET since = since - interval '40 days'")
}

// clear makes the bed as it was made.
func (b *bed) clear(t testing.TB) {
	t.Helper()
	execute(t, b.conn, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	for _, table := range []string{"skald_outbox", "skald_mark", "skald_mark_timeless", "skald_answer", "skald_floor", "skald_quarantine", "skald_entity", "skald_tick", "skald_relay", "skald_aside", "skald_parked", "skald_audit", "skald_step", "skald_step_floor", "skald_lease", "skald_spot", "kv"} {
		execute(t, b.conn, "DELETE FROM "+table)
	}
	execute(t, b.conn, "UPDATE skald_maintained SET keep = NULL")
	execute(t, b.conn, "UPDATE skald_lane SET epoch = 0, token = '', owner = NULL, life = NULL, base = '', tip = '', seq = 0, incarnation = ''")
	execute(t, b.conn, "ALTER SEQUENCE skald_outbox_seq_seq RESTART")
}

func one[T any](t testing.TB, b *bed, statement string, args ...any) (v T) {
	t.Helper()
	if err := b.conn.QueryRow(context.Background(), statement, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return v
}
