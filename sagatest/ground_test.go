package sagatest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
	"github.com/skald-go/skald/store/sqlitestore"
)

// ground is the database of a world with one consumer, of any kind. It also has a user's table with texts by
// key.
type ground[TTx any] struct {
	raw     store.Driver[TTx]
	session func(*sagatest.Process) store.Driver[TTx] // for one session of a process
	get     func(tx TTx, key string) (value string, there bool, err error)
	update  func(tx TTx, key string, change func(old string) string) error
	put     func(key, value string) error // in its own transaction
	user    func() (map[string]string, error)
	said    func() (keys []string, err error) // of all outbox rows
	marked  func() ([]store.Mark, error)      // by consumer and identity
	forget  func(consumer string) error       // deletes data older than 30 days
}

// opening opens the ground of a world.
type opening[TTx any] func(w *sagatest.World) (*ground[TTx], error)

func inMemory(w *sagatest.World) (*ground[*memstore.Tx], error) {
	shift := time.Duration(0)
	s := memstore.New(&memstore.Options{Source: "/consumer", Shards: 2,
		Now:  func() time.Time { return w.Now().Add(shift) },
		Wait: time.Millisecond}) // a paused process may have the message; it is not waited for in real time
	return &ground[*memstore.Tx]{
		raw: s,
		session: func(p *sagatest.Process) store.Driver[*memstore.Tx] {
			session := s.Session()
			p.OnCrash(session.Kill)
			return sagatest.CrashDriver[*memstore.Tx](p, session)
		},
		get: func(tx *memstore.Tx, key string) (string, bool, error) {
			value, there := tx.Get(key)
			return value, there, nil
		},
		update: func(tx *memstore.Tx, key string, change func(string) string) error {
			return tx.Update(key, func(old string, _ bool) string { return change(old) })
		},
		put: func(key, value string) error {
			tx := s.BeginTx()
			return errors.Join(tx.Put(key, value), tx.Commit())
		},
		user: func() (map[string]string, error) { return s.User(), nil },
		said: func() (keys []string, err error) {
			for _, r := range s.Rows() {
				keys = append(keys, string(r.Key))
			}
			return keys, nil
		},
		marked: func() (ms []store.Mark, err error) {
			for _, m := range s.Marks() {
				ms = append(ms, m.Mark)
			}
			return ms, nil
		},
		forget: func(consumer string) error { // the message is old, and its marks were deleted
			shift = -31 * days
			m := store.Mark{Consumer: consumer, Identity: store.Identity{ID: w.NewID(w.Now().Add(shift))},
				Outcome: store.Done}
			_, err := s.Apply(context.Background(), store.Effect{Mark: &m})
			if shift = 0; err == nil {
				_, err = s.Maintain(context.Background(), store.Maintain{})
			}
			return err
		},
	}, nil
}

// files gives each world its own SQLite file, in memory if possible, because the disk is not tested. The file
// has Skald's tables and the tables in more.
func files(t *testing.T, more string) func(w *sagatest.World) (*sql.DB, error) {
	t.Helper()
	within := scratch(t)
	empty := filepath.Join(within, "empty.db")
	db, err := sqlitestore.Open(empty)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sqlitestore.Migrate(t.Context(), db, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), more); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(empty)
	if err != nil {
		t.Fatal(err)
	}
	return func(w *sagatest.World) (*sql.DB, error) {
		folder, err := os.MkdirTemp(within, "world")
		if err != nil {
			return nil, err
		}
		path := filepath.Join(folder, "world.db")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			return nil, err
		}
		db, err := sqlitestore.Open(path)
		if err != nil {
			return nil, err
		}
		w.Cleanup(func() { _ = errors.Join(db.Close(), os.RemoveAll(folder)) })
		return db, nil
	}
}

const (
	userTable = `CREATE TABLE user (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT`
	userRead  = `SELECT value FROM user WHERE key = ?1`
	userWrite = `INSERT INTO user (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value`
)

// onSQLite opens a ground on SQLite. Leases use the real clock there, so no test waits for one.
func onSQLite(t *testing.T) opening[*sql.Tx] {
	t.Helper()
	open := files(t, userTable)
	return func(w *sagatest.World) (*ground[*sql.Tx], error) {
		db, err := open(w)
		if err != nil {
			return nil, err
		}
		ctx, s := context.Background(), sqlitestore.New(db, nil)
		get := func(tx *sql.Tx, key string) (value string, there bool, err error) {
			err = tx.QueryRowContext(ctx, userRead, key).Scan(&value)
			if errors.Is(err, sql.ErrNoRows) {
				return "", false, nil
			}
			return value, err == nil, err
		}
		return &ground[*sql.Tx]{
			raw: s,
			session: func(p *sagatest.Process) store.Driver[*sql.Tx] {
				return &impatient[*sql.Tx]{sagatest.CrashDriver(p, store.Driver[*sql.Tx](s))}
			},
			get: get,
			update: func(tx *sql.Tx, key string, change func(string) string) error {
				old, _, err := get(tx, key)
				if err == nil {
					_, err = tx.ExecContext(ctx, userWrite, key, change(old))
				}
				return err
			},
			put: func(key, value string) error {
				_, err := db.ExecContext(ctx, userWrite, key, value)
				return err
			},
			user: func() (map[string]string, error) {
				all := map[string]string{}
				err := each(db, `SELECT key, value FROM user`, func(row *sql.Rows) (err error) {
					var key, value string
					err = row.Scan(&key, &value)
					all[key] = value
					return err
				})
				return all, err
			},
			said: func() (keys []string, err error) {
				return keys, each(db, `SELECT coalesce(key, '') FROM skald_outbox ORDER BY seq`,
					func(row *sql.Rows) error {
						keys = append(keys, "")
						return row.Scan(&keys[len(keys)-1])
					})
			},
			marked: func() (ms []store.Mark, err error) {
				return ms, each(db, `SELECT consumer, source, id FROM skald_mark ORDER BY arrival`,
					func(row *sql.Rows) error {
						ms = append(ms, store.Mark{})
						m := &ms[len(ms)-1]
						return row.Scan(&m.Consumer, &m.Source, &m.ID)
					})
			},
			forget: func(consumer string) error {
				_, err := db.ExecContext(ctx, `INSERT INTO skald_floor (consumer, at) VALUES (?1, ?2)`,
					consumer, w.Now().Add(-30*days).UnixMilli())
				return err
			},
		}, nil
	}
}

// each reads all rows of a query.
func each(db *sql.DB, query string, scan func(*sql.Rows) error) error {
	rows, err := db.Query(query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
	}
	return rows.Err()
}

// sampleOnSQLite returns the options for a world on SQLite, without pauses, because a file has one writer.
func sampleOnSQLite(rest time.Duration) *sagatest.Options {
	return &sagatest.Options{
		Modes: []sagatest.Mode{sagatest.CrashBefore, sagatest.CrashAfter, sagatest.ErrorAfter,
			sagatest.PartFirst},
		Rest: rest, Sample: sampleOfReal(8, 240), Failures: 3,
	}
}
