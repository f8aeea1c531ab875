package pgstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/internal/pgbed"
	"github.com/skald-go/skald/internal/sqlfile"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/admin"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
	"github.com/skald-go/skald/store/storetest"
)

// withNext returns the migrations of this build and one of a later build, testdata/migration/090_next.sql.
// It changes a table that relays and migrations wait for.
func withNext(t testing.TB) fstest.MapFS {
	t.Helper()
	all := fstest.MapFS{}
	for _, from := range []fs.FS{Migrations(), os.DirFS("testdata/migration")} {
		names, err := fs.Glob(from, "*.sql")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := fs.ReadFile(from, name)
			if err != nil {
				t.Fatal(err)
			}
			all[name] = &fstest.MapFile{Data: text}
		}
	}
	return all
}

// next returns the options of the later build.
func (b *bed) next(t testing.TB) *MigrateOptions {
	return &MigrateOptions{Schema: b.schema, Source: storetest.Source, files: withNext(t)}
}

// migrateTo applies the migrations up to version.
func (b *bed) migrateTo(t testing.TB, version int) {
	t.Helper()
	o, files := b.next(t), withNext(t)
	all, err := sqlfile.Migrations(files, ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.Version > version {
			delete(files, f.Name)
		}
	}
	o.files = files
	if _, err := Migrate(context.Background(), b.pool, o); err != nil {
		t.Fatal(err)
	}
}

// TestConformanceOnTheOldestTables checks that this build works with the oldest tables that it supports.
func TestConformanceOnTheOldestTables(t *testing.T) {
	t.Parallel()
	b := bare(t)
	b.migrateTo(t, oldest)
	b.exec(t, `CREATE TABLE {kv} (key text PRIMARY KEY, value text)`)
	b.Tables = pgbed.New(t, pgbed.Over(b.pool), b.schema)
	h := storetest.Harness[pgx.Tx]{
		Open: func(t testing.TB) storetest.Database[pgx.Tx] {
			b.clear(t)
			return seat{b, pgx.QueryExecModeCacheStatement}
		},
		Can: storetest.Can[pgx.Tx]{Rivals: true, StopsCommit: true, Limits: true, Setting: setting,
			Poison: func(tx pgx.Tx) error {
				_, err := tx.Exec(context.Background(), "SELECT 1/0")
				return err
			}},
	}
	h.Sample = eighth
	if oldest == admin.Newest(Migrations(), oldest) { // all other tests use these tables
		h.Sample = sixteenth
	}
	storetest.Run(t, h)
}

// TestMigrationInTheMidst checks that tables without one of the earlier migrations have the version before
// it.
func TestMigrationInTheMidst(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.store(t)
	b.exec(t, `DELETE FROM {skald_migration} WHERE version = 1`)
	var schema *store.SchemaError
	if err := s.Check(context.Background(), store.Relay); !errors.As(err, &schema) || schema.Have != 0 ||
		!strings.Contains(schema.Remedy, "skald migrate") {
		t.Errorf("Check returned %v", err)
	}
}

// TestNextMigration checks a migration of a later build. If it only adds, it is pending, then applied and
// recorded once, and this build continues. If it removes something, it names the first build that works,
// and this build refuses.
func TestNextMigration(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := context.Background()
	todo, err := Pending(ctx, b.pool, b.next(t))
	if err != nil || len(todo) != 1 || todo[0].Name != "090_next.sql" {
		t.Fatalf("pending: %v, %v", todo, err)
	}
	steps, err := Steps(b.next(t))
	if err != nil || len(steps) < 2 ||
		!strings.HasPrefix(steps[len(steps)-1].SQL, "SET LOCAL lock_timeout") ||
		!strings.Contains(steps[len(steps)-1].SQL, todo[0].Checksum) {
		t.Errorf("steps: %v, %v", steps, err)
	}
	for _, want := range []int{1, 0} {
		if done, err := Migrate(ctx, b.pool, b.next(t)); err != nil || len(done) != want {
			t.Fatalf("it applied %v, %v", done, err)
		}
	}
	s := b.store(t)
	if n := one[int](t, b, `SELECT count(next) FROM {skald_relay}`); n != 0 {
		t.Error(n)
	}
	if done, err := Migrate(ctx, b.pool, &MigrateOptions{Schema: b.schema}); err != nil || len(done) != 0 ||
		s.Check(ctx, store.Relay) != nil {
		t.Errorf("this build on tables that have more: %v, %v", done, err)
	}
	b.exec(t, `UPDATE {skald_migration} SET builds = 90 WHERE version = 90`)
	var schema *store.SchemaError
	if err := s.Check(ctx, store.Relay); !errors.As(err, &schema) || schema.Have != 90 ||
		schema.Last != admin.Newest(Migrations(), oldest) {
		t.Errorf("this build on tables that have less: %v", err)
	}
}

// hot lists the tables that business transactions and relays wait for.
const hot = `(c.relname ~ '^skald_(outbox|mark|entity|shard|snapshot|relay|deferred)' AND c.relkind IN ('r', 'p'))`

// TestMigrationsDoNotStopAnybody checks that a migration of tables in use rewrites no table, blocks the
// writers of a hot table for at most a second, and does not wait long for such a lock.
func TestMigrationsDoNotStopAnybody(t *testing.T) {
	t.Parallel()
	b := bare(t)
	ctx := context.Background()
	b.migrateTo(t, 1)
	b.exec(t,
		`INSERT INTO {skald_outbox} (topic, key, type, data, slot) SELECT 'orders', n::text, 't', repeat('x', 200), n % 10 FROM generate_series(1, 50000) AS n`)
	b.exec(t,
		`INSERT INTO {skald_mark} (consumer, source, id, outcome) SELECT 'c', 's', gen_random_uuid(), 1 FROM generate_series(1, 50000) AS n`)
	b.exec(t,
		`INSERT INTO {skald_snapshot} (token, snapshot, seq, own_txid, at) SELECT 'x', pg_current_snapshot(), n, pg_current_xact_id(), now() FROM generate_series(1, 50000) AS n`)
	b.exec(t,
		`INSERT INTO {skald_entity} (space, key, version) SELECT 'a', n::text::bytea, 1 FROM generate_series(1, 50000) AS n`)
	all, err := sqlfile.Migrations(withNext(t), ".")
	if err != nil {
		t.Fatal(err)
	}
	prefix := newCore(nil, &Options{Schema: b.schema}).pg.Prefix
	files := func() string {
		return one[string](t, b,
			`SELECT string_agg(c.oid || ':' || c.relfilenode, ',' ORDER BY c.oid) FROM pg_class AS c
			WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1) AND c.oid <= $2 AND `+hot, b.schema, one[uint32](t, b, `SELECT '{skald_deferred}'::regclass::oid`))
	}
	for _, f := range all[1:] {
		text := sqlexec.Qualified(f.Text, prefix)
		before, took := files(), time.Hour
		var locks string
		for busy := time.Now().Add(time.Minute); ; { // the machine may be busy: the fastest run counts
			err := pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
				begun := time.Now()
				if _, err := tx.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol); err != nil {
					return fmt.Errorf("%s: %w", f.Name, err)
				}
				took = min(took, time.Since(begun))
				err := tx.QueryRow(ctx,
					`SELECT coalesce(string_agg(DISTINCT c.relname || ' ' || l.mode, ', '), '') FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
					WHERE l.pid = pg_backend_pid() AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock') AND `+hot).Scan(&locks)
				return errors.Join(err, errors.New("not yet"))
			})
			if err == nil || !strings.HasSuffix(err.Error(), "not yet") {
				t.Fatal(err)
			}
			if locks == "" || took <= time.Second || time.Now().After(busy) {
				break
			}
		}
		t.Logf("%s: %v, %s", f.Name, took, locks)
		if locks != "" && took > time.Second {
			t.Errorf("%s takes %v while it holds %s", f.Name, took, locks)
		}
		if _, err := b.pool.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
		if after := files(); after != before {
			t.Errorf("%s rewrites a table", f.Name)
		}
	}
}

// TestMigrateBesideOpenWriter checks that a migration that needs a table of an open transaction gives way
// again and again, and continues when the table is free.
func TestMigrateBesideOpenWriter(t *testing.T) {
	t.Parallel()
	b := bare(t)
	ctx := context.Background()
	b.migrateTo(t, 1)
	tx, err := b.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx,
		b.q(`INSERT INTO {skald_relay} (owner, session, until) VALUES ('a', '1', now())`)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := Migrate(ctx, b.pool, b.next(t))
		done <- err
	}()
	waits := func() bool {
		return one[int](t, b,
			`SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '{skald_relay}'::regclass`) > 0
	}
	for range 2 { // it tries, and gives up
		for _, want := range []bool{true, false} {
			for waits() != want {
				select {
				case err := <-done:
					t.Fatalf("it did not wait for the open transaction: %v", err)
				default:
				}
			}
		}
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := b.store(t).Check(ctx, store.Relay); err != nil {
		t.Error(err)
	}
}
