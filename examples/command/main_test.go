package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/skald-go/skald/store/sqlitestore"
)

// The rows of both services are as the saga of each order has ended.
func TestRun(t *testing.T) {
	dir, out := t.TempDir(), strings.Builder{}
	if err := run(t.Context(), dir, &out); err != nil {
		t.Fatal(err)
	}
	const want = `o-1: done
o-2: undone, because of reserve: out of stock
o-3: undone, because of pay: rejected: not enough money
`
	if out.String() != want {
		t.Errorf("it says\n%s", out.String())
	}
	for _, c := range []struct{ file, query, want string }{
		{"orders.db", `SELECT group_concat(id || ' ' || state, ', ') FROM (SELECT * FROM orders ORDER BY id)`,
			"o-1 paid, o-2 cancelled, o-3 cancelled"},
		{"orders.db", `SELECT cents FROM account`, "500"},
		{"warehouse.db", `SELECT free FROM stock`, "8"},
		{"warehouse.db", `SELECT group_concat(state, ', ') FROM (SELECT state FROM skald_steps ORDER BY state)`,
			"done, rejected, undone"},
	} {
		db, err := sqlitestore.Open(filepath.Join(dir, c.file))
		if err != nil {
			t.Fatal(err)
		}
		var got string
		if err := db.QueryRowContext(t.Context(), c.query).Scan(&got); err != nil || got != c.want {
			t.Errorf("%s in %s: %q, %v; want %q", c.query, c.file, got, err, c.want)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
