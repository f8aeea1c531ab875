package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/admin"
)

func rowsOf(ms ...skald.Message) []skald.Message { return ms }

// TestTxidStandsBeforeSeq checks the order of columns, in which PostgreSQL computes defaults: a transaction
// must get its number before it uses a seq.
func TestTxidStandsBeforeSeq(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	n := one[int](t, b,
		`SELECT count(*) FROM pg_class AS c JOIN pg_attribute AS x ON x.attrelid = c.oid AND x.attname = 'txid'
		JOIN pg_attribute AS s ON s.attrelid = c.oid AND s.attname = 'seq'
		WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1) AND c.relkind IN ('r', 'p') AND c.relname LIKE 'skald_outbox%' AND x.attnum < s.attnum`, b.schema)
	if n != 1+admin.Default().Slots() {
		t.Errorf("in %d of %d tables txid is before seq", n, 1+admin.Default().Slots())
	}
	if cache := one[int](t, b,
		`SELECT seqcache FROM pg_sequence WHERE seqrelid = '{skald_outbox_seq_seq}'::regclass`); cache != 1 {
		t.Errorf("the sequence caches %d numbers", cache)
	}
}

// TestPlainInsert checks that an INSERT from any language is a complete message.
func TestPlainInsert(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := context.Background()
	s := b.store(t)
	b.exec(t,
		`INSERT INTO {skald_outbox} (topic, key, type, data) VALUES ('orders', 'größe 42', 'order.placed', '"42"'), ('orders', NULL, 'order.placed', NULL)`)
	b.exec(t,
		`INSERT INTO {skald_outbox} (topic, key_bytes, type, data_bytes, content_type, headers) VALUES ('orders', '\xff00', 'raw', '\x00ff', 'application/avro', '[["b","Mg=="],["a","AA=="],["b",""]]')`)
	f := newFollower(s)
	if err := f.turn(ctx, 10); err != nil {
		t.Fatal(err)
	}
	if len(f.rows) != 3 {
		t.Fatalf("%d rows", len(f.rows))
	}
	for i, r := range f.rows {
		if at, ok := uuid7.Time(r.ID); !ok || time.Since(at).Abs() > time.Hour || r.Source != "/storetest" ||
			r.Time.IsZero() {
			t.Errorf("row %d: %+v", i, r)
		}
		if want := column.Bucket(&r.Message); r.Bucket != want {
			t.Errorf("row %d has bucket %d, in Go %d", i, r.Bucket, want)
		}
	}
	first, tomb, raw := f.rows[0], f.rows[1], f.rows[2]
	if string(first.Key) != "größe 42" || string(first.Data) != `"42"` ||
		first.ContentType != "application/json" {
		t.Errorf("first: %+v", first)
	}
	if tomb.Key != nil || tomb.Data != nil {
		t.Errorf("tombstone: %+v", tomb)
	}
	if string(raw.Key) != "\xff\x00" || string(raw.Data) != "\x00\xff" ||
		fmt.Sprint(raw.Headers) != "[{b [50]} {a [0]} {b []}]" {
		t.Errorf("raw: %+v", raw)
	}
	for _, bad := range []string{
		`(topic, type, headers) VALUES ('t', 't', '{"a":"b"}')`,
		`(topic, type, headers) VALUES ('t', 't', '[["a"]]')`,
		`(topic, type, headers) VALUES ('t', 't', '[["a b",""]]')`,
		`(topic, type, headers) VALUES ('t', 't', '[["a","no base64!"]]')`,
		`(topic, type, key, key_bytes) VALUES ('t', 't', 'a', 'a')`,
		`(topic, type, data, data_bytes) VALUES ('t', 't', 'a', 'a')`,
		`(topic, type) VALUES ('t t', 't')`,
		`(topic, type, bucket) VALUES ('t', 't', 1024)`,
		// A row that a relay could not read, or only in part, is refused.
		`(topic, type, bucket) VALUES ('t', 't', -1)`,
		`(topic, type, bucket, headers) VALUES ('t', 't', 1, '{"a":"b"}')`,
		`(topic, type, bucket, headers) VALUES ('t', 't', 1, '[["a","no base64!"]]')`,
		`(topic, type, bucket, key, key_bytes) VALUES ('t', 't', 1, 'a', 'a')`,
		`(topic, type, bucket, data, data_bytes) VALUES ('t', 't', 1, 'a', 'a')`,
		`(topic, type, seq) VALUES ('t', 't', 1)`,
	} {
		if _, err := b.pool.Exec(ctx, b.q(`INSERT INTO {skald_outbox} `)+bad); err == nil {
			t.Errorf("the table takes %s", bad)
		}
	}
}

// TestLimitError checks that the table names the limit for a row without a bucket.
func TestLimitError(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := context.Background()
	s := b.store(t)
	good, bad, id := aMessage("a"), aMessage("a"), aMessage("a")
	bad.Topic, id.ID = "no such topic", "7"
	for name, m := range map[string]skald.Message{"topic": bad, "id": id} {
		_, err := s.Apply(ctx, store.Effect{Rows: rowsOf(good, m)})
		var limit *store.LimitError
		if !errors.As(err, &limit) || limit.Topic != m.Topic || s.Outage(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSavepoint checks that rows of a savepoint that is rolled back are not written; the others are, in the
// order of the calls.
func TestSavepoint(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := context.Background()
	s := b.store(t)
	u, err := s.Begin(ctx, store.Intake{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	say := func(tx pgx.Tx) {
		t.Helper()
		n++
		if err := s.Write(ctx, tx, store.Effect{Rows: rowsOf(numbered("a", n))}); err != nil {
			t.Fatal(err)
		}
	}
	nest := func(tx pgx.Tx) pgx.Tx {
		t.Helper()
		in, err := tx.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	say(u.Tx()) // 1
	in := nest(u.Tx())
	say(in) // 2
	deeper := nest(in)
	say(deeper) // 3
	n--
	ok(deeper.Rollback(ctx))
	say(u.Tx()) // 3
	ok(in.Commit(ctx))
	say(u.Tx()) // 4
	gone := nest(u.Tx())
	say(gone)
	say(u.Tx())
	n -= 2
	ok(gone.Rollback(ctx))
	say(u.Tx()) // 5
	left := nest(u.Tx())
	ok(u.Commit(ctx))
	if _, err := left.Exec(ctx, "SELECT 1"); err == nil {
		t.Error("a savepoint outlives its unit")
	}
	f := newFollower(s)
	ok(f.turn(ctx, 10))
	wantOrder(t, f.rows, map[string]int{"a": 5})
}

// TestRoleSettings checks that a role's settings for synchronous_commit and isolation do not change Skald's
// commits.
// Interleavings 6, 11.
func TestRoleSettings(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := context.Background()
	pool := b.connect(t, pgx.QueryExecModeCacheStatement)
	t.Cleanup(func() { go pool.Close() })
	conn, err := pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"SET synchronous_commit = off",
		"SET default_transaction_isolation = 'repeatable read'"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	conn.Release()
	s := New(pool, &Options{Schema: b.schema})
	u, err := s.Begin(ctx, store.Intake{Wait: time.Second, Handle: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	var settings [4]string
	err = u.Tx().QueryRow(ctx,
		`SELECT current_setting('synchronous_commit'), current_setting('transaction_isolation'),
		current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout')`).Scan(&settings[0], &settings[1], &settings[2], &settings[3])
	if got := strings.Join(settings[:], ", "); err != nil || got != "on, read committed, 1s, 1min" {
		t.Errorf("a unit has %s, %v", got, err)
	}
	if err := u.Commit(ctx); err != nil {
		t.Fatal(err)
	}
}
