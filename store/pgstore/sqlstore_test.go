package pgstore

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/storetest"
)

// sqlSeat is a database for storetest, over database/sql.
type sqlSeat struct {
	*bed
	db   *sql.DB // separate from the driver's
	mode pgx.QueryExecMode
}

func (b sqlSeat) Driver(t testing.TB) store.Driver[*sql.Tx] {
	t.Helper()
	pool := b.connect(t, b.mode)
	t.Cleanup(func() { go pool.Close() })
	return NewSQL(stdlib.OpenDBFromPool(pool), &Options{Schema: b.schema})
}

func (b sqlSeat) Begin(t testing.TB) *sql.Tx {
	t.Helper()
	tx, err := b.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func (b sqlSeat) Commit(tx *sql.Tx) error   { return tx.Commit() }
func (b sqlSeat) Rollback(tx *sql.Tx) error { return tx.Rollback() }

func (b sqlSeat) Put(tx *sql.Tx, key, value string) error {
	_, err := tx.Exec(
		b.q(`INSERT INTO {kv} VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value`), key,
		value)
	return err
}

func TestConformanceSQL(t *testing.T) {
	t.Parallel()
	h := harnessOfSQL(newBed(t), pgx.QueryExecModeCacheStatement)
	h.Sample = eighth
	storetest.Run(t, h)
}

func harnessOfSQL(b *bed, mode pgx.QueryExecMode) storetest.Harness[*sql.Tx] {
	return storetest.Harness[*sql.Tx]{
		Open: func(t testing.TB) storetest.Database[*sql.Tx] {
			b.clear(t)
			return sqlSeat{b, stdlib.OpenDBFromPool(b.pool), mode}
		},
		Can: storetest.Can[*sql.Tx]{Rivals: true, Limits: true, Poison: func(tx *sql.Tx) error {
			_, err := tx.Exec("SELECT 1/0")
			return err
		}, Anew: anew(func(tx *sql.Tx, text string) error {
			_, err := tx.Exec(text)
			return err
		}), Pool: func(t testing.TB, _ storetest.Database[*sql.Tx], connections int) store.Driver[*sql.Tx] {
			t.Helper()
			return NewSQL(stdlib.OpenDBFromPool(b.few(t, mode, connections)), &Options{Schema: b.schema})
		}, Statement: func(_ storetest.Database[*sql.Tx], tx *sql.Tx, text string) error {
			_, err := tx.Exec(b.q(text))
			return err
		}, Setting: func(t testing.TB, tx *sql.Tx, name string) (value string) {
			t.Helper()
			if err := tx.QueryRow("SELECT coalesce(current_setting($1, true), '')",
				name).Scan(&value); err != nil {
				t.Fatal(err)
			}
			return value
		}},
	}
}

func TestRoundTripsSQL(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	w := newWire(t, b.url)
	ctx := context.Background()
	s := NewSQL(stdlib.OpenDBFromPool(w.pool(t, b, pgx.QueryExecModeCacheStatement)),
		&Options{Schema: b.schema})
	done := aMark()
	if _, err := s.Apply(ctx, store.Effect{Mark: &done}); err != nil {
		t.Fatal(err)
	}
	begin := func(m store.Mark) store.Unit[*sql.Tx] {
		u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{m},
			Locks:    []store.Lock{{Space: "order", Key: "a"}},
			Settings: []store.Setting{{Name: "app.tenant", Value: "42"}}})
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	for name, c := range map[string]struct {
		want int
		do   func() error
	}{
		"a message with one event": {5, func() error {
			u := begin(aMark())
			if err := s.Write(ctx, u.Tx(), store.Effect{Rows: []skald.Message{aMessage("a")}}); err != nil {
				return err
			}
			return u.Commit(ctx)
		}},
		"a duplicate": {3, func() error {
			_, err := begin(done).Rollback(ctx)
			return err
		}},
		"a rejection": {4, func() error {
			m := aMark()
			m.Outcome = store.Rejected
			_, err := begin(aMark()).Rollback(ctx,
				store.Effect{Mark: &m, Rows: []skald.Message{aMessage("a")}})
			return err
		}},
	} {
		do := func() {
			if err := c.do(); err != nil {
				t.Fatal(err)
			}
		}
		do()
		do()
		if got := w.count(do); got != c.want {
			t.Errorf("%s takes %d round trips, want %d", name, got, c.want)
		}
	}
}
