package table_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store/sqlitestore"
)

func TestStatements(t *testing.T) {
	got, err := table.Statements(fstest.MapFS{"sql/query/a.sql": {Data: []byte(
		"-- name: One\nSELECT 1;\n\n-- name: Two\n-- why\nSELECT\n  2;\n")}})
	if err != nil || len(got) != 2 || got["One"] != "SELECT 1;" || got["Two"] != "-- why\nSELECT\n  2;" {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"SELECT 1;", "-- name:\nSELECT 1;", "-- name: One\n",
		"-- name: One\nSELECT 1;\n-- name: One\nSELECT 2;"} {
		if got, err := table.Statements(fstest.MapFS{"sql/query/a.sql": {Data: []byte(bad)}}); err == nil {
			t.Errorf("%q is read as %q", bad, got)
		}
	}
}

func TestTimeSorts(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.FixedZone("", -3600))
	var last string
	for _, d := range []time.Duration{0, time.Microsecond, 10 * time.Microsecond, time.Second, time.Hour} {
		now := table.Time(at.Add(d))
		if now <= last {
			t.Errorf("%s does not sort behind %s", now, last)
		}
		last = now
	}
	if got := table.Time(at); got != "2026-11-21T10:00:00.000000Z" {
		t.Error(got)
	}
}

// The same SQL gives the same result in both databases, with any order and number of placeholders.
func TestSameOnBoth(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		db, err := sqlitestore.Open(filepath.Join(t.TempDir(), "x.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		home := table.SQLite(db, nil)
		exercise(t, home)
	})
	t.Run("postgres", func(t *testing.T) {
		pool, err := pgxpool.New(t.Context(), need.Postgres(t))
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		exercise(t, table.Postgres(pool, "", nil))
	})
}

func exercise[TTx any](t *testing.T, home table.Home[TTx]) {
	ctx := t.Context()
	undo := errors.New("undo")
	err := home.Begin(ctx, func(tx TTx) error {
		db := home.DB(tx)
		if _, err := db.Exec(ctx,
			"CREATE TEMPORARY TABLE things (name TEXT PRIMARY KEY, n BIGINT NOT NULL, yes BOOLEAN NOT NULL)"); err != nil {
			return err
		}
		for i, name := range []string{"a", "b", "c"} {
			if n, err := db.Exec(ctx, "INSERT INTO things (yes, n, name) VALUES ($3, $2, $1)", name, i,
				i > 0); err != nil || n != 1 {
				t.Errorf("insert %s: %d, %v", name, n, err)
			}
		}
		if n, err := db.Exec(ctx, "UPDATE things SET n = n + $2 WHERE name > $1 AND n + $2 < 100", "a",
			10); err != nil || n != 2 {
			t.Errorf("update: %d, %v", n, err)
		}
		var names []string
		var sum int64
		err := table.All(ctx, db, "SELECT name, n, yes FROM things WHERE yes = $1 ORDER BY name", []any{true},
			func(row table.Row) error {
				var name string
				var n int64
				var yes bool
				err := row.Scan(&name, &n, &yes)
				names, sum = append(names, name), sum+n
				return err
			})
		if err != nil || !slices.Equal(names, []string{"b", "c"}) || sum != 23 {
			t.Errorf("%v, %d, %v", names, sum, err)
		}
		var n int64
		if err := db.QueryRow(ctx, "SELECT n FROM things WHERE name = $1", "none").Scan(&n); !errors.Is(err,
			sql.ErrNoRows) {
			t.Errorf("a missing row: %v", err)
		}
		return undo
	})
	if !errors.Is(err, undo) {
		t.Error(err)
	}
	if _, err := home.Read.Query(ctx, "SELECT * FROM things"); err == nil {
		t.Error("what was undone is there")
	}
}
