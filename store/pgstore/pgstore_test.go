package pgstore

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/internal/pgbed"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/storetest"
)

var schemas atomic.Int64

// bed is a schema for one test, with the tables.
type bed struct {
	url, schema string
	through     string            // the URL of a pooler for the drivers; "" means none
	defaults    map[string]string // settings of the drivers' sessions
	pool        *pgxpool.Pool     // separate from the driver's
	*pgbed.Tables
}

func newBed(t testing.TB) *bed {
	t.Helper()
	return newBedAt(t, need.Postgres(t))
}

func newBedAt(t testing.TB, url string) *bed {
	t.Helper()
	return bareAt(t, url).made(t)
}

// made creates the tables.
func (b *bed) made(t testing.TB) *bed {
	t.Helper()
	if _, err := Migrate(context.Background(), b.pool,
		&MigrateOptions{Schema: b.schema, Source: storetest.Source}); err != nil {
		t.Fatal(err)
	}
	b.exec(t, `CREATE TABLE {kv} (key text PRIMARY KEY, value text)`)
	b.Tables = pgbed.New(t, pgbed.Over(b.pool), b.schema)
	return b
}

// bare returns a bed without tables.
func bare(t testing.TB) *bed {
	t.Helper()
	return bareAt(t, need.Postgres(t))
}

func bareAt(t testing.TB, url string) *bed {
	t.Helper()
	return bareIn(t, url, fmt.Sprintf("skald test %d %d", time.Now().UnixNano(), schemas.Add(1)))
}

func bareIn(t testing.TB, url, schema string) *bed {
	t.Helper()
	b := &bed{url: url, schema: schema}
	b.pool = b.connect(t, pgx.QueryExecModeCacheStatement)
	t.Cleanup(func() {
		b.end(t)
		b.exec(t, "DROP SCHEMA IF EXISTS "+strings.TrimSuffix(b.prefix(), ".")+" CASCADE")
		go b.pool.Close()
	})
	return b
}

func (b *bed) prefix() string { return pgx.Identifier{b.schema}.Sanitize() + "." }

func (b *bed) name() string { return strings.ReplaceAll(b.schema, " ", "_") }

// q puts the schema before the names in braces.
func (b *bed) q(sql string) string {
	return strings.NewReplacer("{", b.prefix(), "}", "").Replace(sql)
}

func (b *bed) connect(t testing.TB, mode pgx.QueryExecMode) *pgxpool.Pool {
	t.Helper()
	url := b.url
	if b.pool != nil && b.through != "" {
		url = b.through
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.DefaultQueryExecMode = mode
	if b.pool != nil {
		config.ConnConfig.RuntimeParams["application_name"] = b.name()
	}
	if b.pool != nil {
		maps.Copy(config.ConnConfig.RuntimeParams, b.defaults)
	}
	config.MaxConns = 10
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

func (b *bed) connectTo(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func (b *bed) store(t testing.TB) *Store {
	t.Helper()
	return b.storeIn(t, pgx.QueryExecModeCacheStatement)
}

func (b *bed) storeIn(t testing.TB, mode pgx.QueryExecMode) *Store {
	t.Helper()
	pool := b.connect(t, mode)
	t.Cleanup(func() { go pool.Close() }) // it waits for units that a failed test left open
	return New(pool, &Options{Schema: b.schema})
}

func (b *bed) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := b.pool.Exec(context.Background(), b.q(sql), args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func one[T any](t testing.TB, b *bed, sql string, args ...any) (v T) {
	t.Helper()
	if err := b.pool.QueryRow(context.Background(), b.q(sql), args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// seat is a database for storetest.
type seat struct {
	*bed
	mode pgx.QueryExecMode
}

func (b seat) Driver(t testing.TB) store.Driver[pgx.Tx] { return b.storeIn(t, b.mode) }

func (b seat) Begin(t testing.TB) pgx.Tx {
	t.Helper()
	tx, err := b.pool.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func (b seat) Commit(tx pgx.Tx) error   { return tx.Commit(context.Background()) }
func (b seat) Rollback(tx pgx.Tx) error { return tx.Rollback(context.Background()) }

func (b seat) Put(tx pgx.Tx, key, value string) error {
	_, err := tx.Exec(context.Background(),
		b.q(`INSERT INTO {kv} VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value`), key,
		value)
	return err
}

// clear empties the bed. There are many tables, so creating them again takes longer than everything else.
func (b *bed) clear(t testing.TB) {
	t.Helper()
	b.end(t)
	b.Made.Anew(t)
	t.Cleanup(func() { b.fronts(t) })
}

// end ends the transactions that drivers left open.
func (b *bed) end(t testing.TB) {
	t.Helper()
	idle := ""
	if b.through != "" {
		idle = " AND state <> 'idle'" // those are the pooler's
	}
	b.exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1`+
		idle, b.name())
}

// fronts checks that of the messages that block a key only the first waits for none: a new message looks
// only for the first.
func (b *bed) fronts(t testing.TB) {
	t.Helper()
	rows, err := b.pool.Query(context.Background(),
		b.q(`SELECT p.consumer, p.source, p.id FROM {skald_parked} AS p WHERE p.key IS NOT NULL AND p.blocks_key
		AND p.waiting <> EXISTS (SELECT FROM {skald_parked} AS f WHERE f.consumer = p.consumer AND f.key = p.key AND f.blocks_key AND f.place < p.place)`))
	if err != nil {
		t.Error(err)
		return
	}
	wrong, err := pgx.CollectRows(rows, pgx.RowToMap)
	if err != nil || len(wrong) > 0 {
		t.Errorf("wait and are the first of their key, or the other way round: %v, %v", wrong, err)
	}
}

func setting(t testing.TB, tx pgx.Tx, name string) (value string) {
	t.Helper()
	if err := tx.QueryRow(context.Background(), "SELECT coalesce(current_setting($1, true), '')",
		name).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// TestConformance runs the suite in the modes of pgx.
// Interleaving 2.
func TestConformance(t *testing.T) {
	t.Parallel()
	need.Postgres(t)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(strings.ReplaceAll(mode.String(), " ", "_"), func(t *testing.T) {
			t.Parallel()
			// In a schema whose name resembles other parts of a statement.
			odd := fmt.Sprintf(`Sk.aLd "te'st" $1 ?\ /*x*/ skald_outbox_0 -- %d`, time.Now().UnixNano()%1e12+
				schemas.Add(1))
			b := bareIn(t, need.Postgres(t), odd).made(t)
			if mode == pgx.QueryExecModeExec || mode == pgx.QueryExecModeSimpleProtocol {
				// many values are sent as text
				b.defaults = oddText()
			}
			h := harnessOf(b, mode)
			if mode != pgx.QueryExecModeCacheStatement {
				h.Sample = sixteenth
			}
			storetest.Run(t, h)
		})
	}
}

// oddText has settings for the text format of a server. NULL in an array is then a word.
func oddText() map[string]string {
	return map[string]string{"DateStyle": "SQL, DMY", "bytea_output": "escape", "extra_float_digits": "-15",
		"array_nulls":   "off",
		"IntervalStyle": "sql_standard", "TimeZone": "Africa/Monrovia"}
}

// TestConformance runs the whole suite with cached statements. An eighth of it, each time another one, runs
// with other drivers, rights and isolation. A sixteenth runs with other versions and in other modes of pgx.
// With SKALD_EXPLORE=full or all, each of them runs the whole suite.
const (
	eighth    = 8
	sixteenth = 16
)

func harnessOf(b *bed, mode pgx.QueryExecMode) storetest.Harness[pgx.Tx] {
	return storetest.Harness[pgx.Tx]{
		Open: func(t testing.TB) storetest.Database[pgx.Tx] {
			b.clear(t)
			return seat{b, mode}
		},
		Can: storetest.Can[pgx.Tx]{Rivals: true, StopsCommit: true, Limits: true,
			Poison: func(tx pgx.Tx) error {
				_, err := tx.Exec(context.Background(), "SELECT 1/0")
				return err
			}, Anew: anew(func(tx pgx.Tx, sql string) error {
				_, err := tx.Exec(context.Background(), sql)
				return err
			}),
			Pool: func(t testing.TB, db storetest.Database[pgx.Tx], connections int) store.Driver[pgx.Tx] {
				t.Helper()
				return New(b.few(t, mode, connections), &Options{Schema: b.schema})
			}, Setting: setting,
			Statement: func(_ storetest.Database[pgx.Tx], tx pgx.Tx, sql string) error {
				_, err := tx.Exec(context.Background(), b.q(sql))
				return err
			},
			Nest: func(tx pgx.Tx) (pgx.Tx, error) { return tx.Begin(context.Background()) },
			Raw: func(tx pgx.Tx, sql string) error {
				_, err := tx.Conn().Exec(context.Background(), b.q(sql))
				return err
			}},
	}
}

// anew returns the ways to end a transaction by statements and begin another.
func anew[TTx any](exec func(TTx, string) error) (ways []func(TTx) error) {
	for _, way := range []string{"ROLLBACK AND CHAIN", "ROLLBACK; BEGIN", "COMMIT AND CHAIN"} {
		ways = append(ways, func(tx TTx) error { return exec(tx, way) })
	}
	return ways
}

// few returns a pool of at most that many connections.
func (b *bed) few(t testing.TB, mode pgx.QueryExecMode, connections int) *pgxpool.Pool {
	t.Helper()
	all := b.connect(t, mode)
	config := all.Config()
	all.Close()
	config.MaxConns = int32(connections)
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { go pool.Close() })
	return pool
}
