package sagatest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store/sqlitestore"
)

// TestCheckOnSQLite: Check also runs functions that use SQL. They book the seats of a show in SQLite. Check
// finds a function that books without a check.
func TestCheckOnSQLite(t *testing.T) {
	db, err := sqlitestore.Open(filepath.Join(scratch(t), "check.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := sqlitestore.Migrate(t.Context(), db, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(),
		`CREATE TABLE show (name TEXT PRIMARY KEY, free INTEGER NOT NULL) STRICT`); err != nil {
		t.Fatal(err)
	}
	s := sqlitestore.New(db, nil)
	fresh := func(ctx context.Context) (sagatest.Beginner[*sql.Tx], error) {
		_, err := db.ExecContext(ctx, `DELETE FROM show`)
		return s, err
	}
	book := func(where string) func(context.Context, *sql.Tx, saga.Run[seats]) (int64, error) {
		return func(ctx context.Context, tx *sql.Tx, r saga.Run[seats]) (int64, error) {
			done, err := tx.ExecContext(ctx, `UPDATE show SET free = free - ?1 WHERE `+where, r.In.Seats)
			if err != nil {
				return 0, err
			}
			n, err := done.RowsAffected()
			if n == 0 && err == nil {
				err = skald.Reject(errors.New("sold out"))
			}
			return n, err
		}
	}
	unbook := func(ctx context.Context, tx *sql.Tx, r saga.Run[seats], n int64) error {
		_, err := tx.ExecContext(ctx, `UPDATE show SET free = free + ?1 WHERE name = 'hamlet'`, r.In.Seats)
		return err
	}
	last := saga.Do("last",
		func(context.Context, *sql.Tx, saga.Run[seats]) (bool, error) { return true, nil }, nil, saga.Pivot())
	for where, want := range map[string]string{`name = 'hamlet' AND free >= ?1`: "",
		`name IN ('hamlet', 'macbeth')`: "it is compensated, and left"} {
		r := &recorder{T: t}
		d := saga.New("booking", &saga.Options[seats]{Key: func(s seats) string { return s.Show }},
			saga.Do("book", book(where), unbook), last)
		got := sagatest.CheckOn(r, fresh, d, seats{"a", 2},
			sagatest.Given(func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, `INSERT INTO show VALUES ('hamlet', 9), ('macbeth', 9)`)
				return err
			}),
			sagatest.View(func(ctx context.Context, tx *sql.Tx) (out string, err error) {
				err = tx.QueryRowContext(ctx,
					`SELECT group_concat(name || ' ' || free, ', ') FROM show`).Scan(&out)
				return out, err
			}))
		if said := fmt.Sprint(r.said); got.Runs < 12 || (len(r.said) == 0) != (want == "") ||
			!strings.Contains(said, want) {
			t.Errorf("%s: %d runs, got %s", where, got.Runs, said)
		}
	}
}
