package pgstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/internal/sqlfile"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/admin"
	"github.com/skald-go/skald/store/pgstore/internal/wal"
)

// TestMigrateTwoAtOnce checks that one of two concurrent migrations waits for the other.
// Interleaving 5.
func TestMigrateTwoAtOnce(t *testing.T) {
	t.Parallel()
	b := bare(t)
	ctx := context.Background()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var did []int
	for range 4 {
		wg.Go(func() {
			done, err := Migrate(ctx, b.pool, &MigrateOptions{Schema: b.schema})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			did = append(did, len(done))
		})
	}
	wg.Wait()
	slices.Sort(did)
	if want := []int{0, 0, 0, steps(t)}; !slices.Equal(did, want) {
		t.Errorf("four at once applied %v, want %v", did, want)
	}
	want := "/postgres/" + b.schema
	if got := one[string](t, b,
		`SELECT value FROM {skald_setting} WHERE name = 'source'`); !strings.HasSuffix(got, b.schema) {
		t.Errorf("the source is %q, want one like %q", got, want)
	}
}

// steps returns the number of migrations.
func steps(t *testing.T) int {
	t.Helper()
	all, err := sqlfile.Migrations(Migrations(), ".")
	newest := admin.Newest(Migrations(), 0)
	if err != nil || len(all) == 0 || oldest > newest {
		t.Fatalf("%d migrations, versions %d to %d: %v", len(all), oldest, newest, err)
	}
	return len(all)
}

func TestMigratePending(t *testing.T) {
	t.Parallel()
	b := bare(t)
	ctx := context.Background()
	o := &MigrateOptions{Schema: b.schema, Source: "/it's \\a name"}
	todo, err := Pending(ctx, b.pool, o)
	if err != nil || len(todo) != steps(t) {
		t.Fatalf("pending: %v, %v", todo, err)
	}
	if n := one[int](t, b, `SELECT count(*) FROM pg_namespace WHERE nspname = $1`, b.schema); n != 0 {
		t.Fatal("Pending made the schema")
	}
	if _, err := Migrate(ctx, b.pool, o); err != nil {
		t.Fatal(err)
	}
	if todo, err = Pending(ctx, b.pool, o); err != nil || len(todo) != 0 {
		t.Fatalf("pending: %v, %v", todo, err)
	}
	b.exec(t, `INSERT INTO {skald_outbox} (topic, type) VALUES ('t', 't')`)
	if got := one[string](t, b, `SELECT source FROM {skald_outbox}`); got != o.Source {
		t.Errorf("the source of a row is %q, want %q", got, o.Source)
	}
	var other *SourceError
	if _, err := Migrate(ctx, b.pool, &MigrateOptions{Schema: b.schema, Source: "/other"}); !errors.As(err,
		&other) || other.Have != o.Source {
		t.Errorf("another source: %v", err)
	}
	if _, err := Pending(ctx, b.pool, &MigrateOptions{Schema: b.schema, Source: "/other"}); !errors.As(err,
		&other) {
		t.Errorf("pending with another source: %v", err)
	}
	if _, err := Migrate(ctx, b.pool, &MigrateOptions{Schema: b.schema}); err != nil {
		t.Errorf("no source, later: %v", err)
	}
}

func TestMigrateChangedAndLater(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := context.Background()
	s := b.store(t)
	if err := s.Check(ctx, store.App); err != nil {
		t.Fatal(err)
	}
	// A later build added something: this older build continues.
	b.exec(t, `INSERT INTO {skald_migration} (version, name, checksum) VALUES (99, '099_later.sql', '')`)
	if err := s.Check(ctx, store.App); err != nil {
		t.Errorf("check of tables that have more: %v", err)
	}
	o := &MigrateOptions{Schema: b.schema}
	if todo, err := Migrate(ctx, b.pool, o); err != nil || len(todo) != 0 {
		t.Errorf("migrate tables that have more: %v, %v", todo, err)
	}
	// A later build removed something.
	b.exec(t, `UPDATE {skald_migration} SET builds = 98 WHERE version = 99`)
	_, migrate := Migrate(ctx, b.pool, o)
	_, pending := Pending(ctx, b.pool, o)
	var schema *store.SchemaError
	for name, err := range map[string]error{"check": s.Check(ctx, store.App), "migrate": migrate,
		"pending": pending} {
		if !errors.As(err, &schema) || schema.Have != 99 || schema.Remedy != "run a newer build" {
			t.Errorf("%s of tables that have less: %v", name, err)
		}
	}
	page, err := os.ReadFile("../../docs/operations.md")
	if said := fmt.Sprintf(
		"the tables in schema s have version 99, this build works with %d to %d: run a newer build",
		schema.Need, schema.Last); err != nil || !strings.Contains(string(page), said) {
		t.Errorf("docs/operations.md has not %q: %v", said, err)
	}
	b.exec(t, `DELETE FROM {skald_migration} WHERE version = 99`)
	b.exec(t, `UPDATE {skald_migration} SET checksum = 'x'`)
	var changed *ChangedError
	if _, err := Migrate(ctx, b.pool, &MigrateOptions{Schema: b.schema}); !errors.As(err, &changed) {
		t.Errorf("a changed migration: %v", err)
	}
}

func TestNoTables(t *testing.T) {
	t.Parallel()
	b := bare(t)
	ctx := context.Background()
	s := b.store(t)
	m := aMark()
	_, begin := s.Begin(ctx, store.Intake{Marks: []store.Mark{m}})
	_, tick := store.Snapshot(ctx, s, "")
	for name, err := range map[string]error{"check": s.Check(ctx, store.App), "begin": begin, "tick": tick} {
		var schema *store.SchemaError
		if !errors.As(err, &schema) || schema.Have != 0 || !strings.Contains(schema.Remedy, b.schema) ||
			!store.Incurable(err) || s.Outage(err) {
			t.Errorf("%s without tables: %v", name, err)
		}
	}
}

// TestMigrateEncoding checks that a database with another encoding is refused, because it cannot store
// every text.
func TestMigrateEncoding(t *testing.T) {
	t.Parallel()
	b := bare(t)
	ctx := context.Background()
	name := "skald_latin_" + fmt.Sprint(time.Now().UnixNano())
	b.exec(t, `CREATE DATABASE `+name+` ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0`)
	config, err := pgxpool.ParseConfig(b.url)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.Database = name
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		pool.Close()
		b.exec(t, `DROP DATABASE `+name)
	})
	var encoding *store.EncodingError
	if _, err := Migrate(ctx, pool, nil); !errors.As(err, &encoding) || encoding.Encoding != "LATIN1" {
		t.Errorf("migrate a LATIN1 database: %v", err)
	}
	err = New(pool, nil).Check(ctx, store.Relay) // other tools may create the tables
	if !errors.As(err, &encoding) || encoding.Encoding != "LATIN1" || !store.Incurable(err) ||
		!strings.Contains(err.Error(), "ENCODING 'UTF8'") {
		t.Errorf("check of a LATIN1 database: %v", err)
	}
}

// TestClientEncoding checks that a client with another encoding is refused, because it would store wrong
// letters without an error.
func TestClientEncoding(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(b.url)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["client_encoding"] = "LATIN1"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := New(pool, &Options{Schema: b.schema})
	write := pgx.BeginFunc(ctx, pool,
		func(tx pgx.Tx) error { return s.Write(ctx, tx, store.Effect{Rows: rowsOf(aMessage("größe"))}) })
	_, migrate := Migrate(ctx, pool, &MigrateOptions{Schema: b.schema})
	for name, err := range map[string]error{"check": s.Check(ctx, store.App), "write": write,
		"migrate": migrate} {
		var encoding *store.EncodingError
		if !errors.As(err, &encoding) || encoding.Encoding != "LATIN1" || !store.Incurable(err) ||
			!strings.Contains(err.Error(), "client_encoding=UTF8") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if c := b.Count(t); c.Rows != 0 {
		t.Errorf("%+v", c)
	}
}

// TestStatements checks that every statement can be prepared on a new schema.
func TestStatements(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := context.Background()
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	c := newCore(nil, &Options{Schema: b.schema})
	if c.pg.Err != nil {
		t.Fatal(c.pg.Err)
	}
	prepared := 0
	texts := maps.Clone(c.pg.SQL)
	maps.Copy(texts, wal.ReaderStatements(c.pg, "a slot"))
	maps.Copy(texts, wal.FollowerStatements(c.pg, "a slot", "a publication"))
	delete(texts, "WALServer") // a part of others, as the next is
	delete(texts, "WALPublished")
	if conn.Conn().PgConn().ParameterStatus("server_version") < "17" {
		delete(texts, "WALMakeFailoverSlot")
	}
	all := []map[string]string{texts}
	for n := range admin.Default().Slots() {
		all = append(all, c.pg.RowTexts(n))
	}
	for _, texts := range all {
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			sql := texts[name]
			if strings.Contains(sql, "/*filter*/") || strings.Contains(sql, "/*columns*/") ||
				strings.Contains(sql, "/*schema*/") {
				t.Errorf("%s has a placeholder left", name)
			}
			if _, err := conn.Conn().Prepare(ctx, "", sql); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			prepared++
		}
	}
	if prepared < 100 {
		t.Errorf("only %d statements", prepared)
	}
}

func TestBadSchemaName(t *testing.T) {
	t.Parallel()
	need.Postgres(t)
	for _, name := range []string{"a$$b", "a\x00b", "\xff", strings.Repeat("ä", 32)} {
		s := New(nil, &Options{Schema: name})
		if err := s.Check(context.Background(), store.App); err == nil ||
			!strings.Contains(err.Error(), "1 to 63 bytes") {
			t.Errorf("schema %q: %v", name, err)
		}
		if _, err := s.Begin(context.Background(), store.Intake{}); err == nil {
			t.Errorf("schema %q is taken", name)
		}
		if _, err := Migrate(context.Background(), (*pgx.Conn)(nil),
			&MigrateOptions{Schema: name}); err == nil {
			t.Errorf("schema %q is migrated", name)
		}
	}
}

// TestScript checks that the script gives the same result as Migrate.
func TestScript(t *testing.T) {
	t.Parallel()
	b := bareIn(t, need.Postgres(t), fmt.Sprintf(`It's "a" sc.ript %d`, time.Now().UnixNano()))
	ctx := context.Background()
	text, err := Script(&MigrateOptions{Schema: b.schema})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.pool.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	if todo, err := Migrate(ctx, b.pool, &MigrateOptions{Schema: b.schema}); err != nil || len(todo) != 0 {
		t.Errorf("behind the script there is to do: %v, %v", todo, err)
	}
	s := b.store(t)
	if err := s.Check(ctx, store.App); err != nil {
		t.Error(err)
	}
	b.exec(t, `INSERT INTO {skald_outbox} (topic, type) VALUES ('t', 't')`)
	if got := one[string](t, b, `SELECT source FROM {skald_outbox}`); !strings.HasPrefix(got, "/") ||
		!strings.HasSuffix(got, "/"+b.schema) {
		t.Errorf("the source is %q", got)
	}
}
