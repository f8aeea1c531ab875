package sagatest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/internal/pgbed"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

const (
	ownTable = `CREATE TABLE /*schema*/own (key text PRIMARY KEY, value text NOT NULL)`
	ownRead  = `SELECT value FROM /*schema*/own WHERE key = $1`
	ownWrite = `INSERT INTO /*schema*/own (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value`
	ownAll   = `SELECT key, value FROM /*schema*/own`
	allSaid  = `SELECT coalesce(key, '') FROM /*schema*/skald_outbox ORDER BY seq`
	allMarks = `SELECT consumer, source, id FROM /*schema*/skald_mark`
	newFloor = `INSERT INTO /*schema*/skald_floor (consumer, at) VALUES ($1, $2)`
)

// onPostgres opens a schema for all worlds, restored for each. Leases use the server's clock there, which
// no world can move, so no test waits for one.
func onPostgres(t *testing.T) opening[pgx.Tx] {
	t.Helper()
	ctx := context.Background()
	pool, schema := fewConnections(t, 12)
	in := func(q string) string { return strings.ReplaceAll(q, "/*schema*/", schema+".") }
	if _, err := pool.Exec(ctx, in(ownTable)); err != nil {
		t.Fatal(err)
	}
	made := pgbed.Keep(t, pgbed.Over(pool), schema)
	get := func(tx pgx.Tx, key string) (value string, there bool, err error) {
		err = tx.QueryRow(ctx, in(ownRead), key).Scan(&value)
		if errors.Is(err, pgx.ErrNoRows) {
			return "", false, nil
		}
		return value, err == nil, err
	}
	every := func(q string, into []any, row func() error) error {
		rows, _ := pool.Query(ctx, in(q)) // ForEachRow returns its error, too
		_, err := pgx.ForEachRow(rows, into, row)
		return err
	}
	return func(w *sagatest.World) (*ground[pgx.Tx], error) {
		if _, err := pool.Exec(ctx, made.SQL); err != nil {
			return nil, err
		}
		s := pgstore.New(pool, &pgstore.Options{Schema: schema})
		return &ground[pgx.Tx]{
			raw: s,
			session: func(p *sagatest.Process) store.Driver[pgx.Tx] {
				return &impatient[pgx.Tx]{sagatest.CrashDriver(p, store.Driver[pgx.Tx](s))}
			},
			get: get,
			update: func(tx pgx.Tx, key string, change func(old string) string) error {
				old, _, err := get(tx, key)
				if err == nil {
					_, err = tx.Exec(ctx, in(ownWrite), key, change(old))
				}
				return err
			},
			put: func(key, value string) error {
				_, err := pool.Exec(ctx, in(ownWrite), key, value)
				return err
			},
			user: func() (map[string]string, error) {
				var key, value string
				all := map[string]string{}
				return all, every(ownAll, []any{&key, &value}, func() error {
					all[key] = value
					return nil
				})
			},
			said: func() (keys []string, err error) {
				var key string
				err = every(allSaid, []any{&key}, func() error {
					keys = append(keys, key)
					return nil
				})
				return keys, err
			},
			marked: func() (ms []store.Mark, err error) {
				var m store.Mark
				err = every(allMarks, []any{&m.Consumer, &m.Source, &m.ID}, func() error {
					ms = append(ms, m)
					return nil
				})
				return ms, err
			},
			forget: func(consumer string) error {
				_, err := pool.Exec(ctx, in(newFloor), consumer, w.Now().Add(-30*days))
				return err
			},
		}, nil
	}
}
