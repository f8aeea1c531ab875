package sqlitestore

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
	"github.com/skald-go/skald/store/storetest"
)

// TestViews checks that the views agree with the positions of relays.
func TestViews(t *testing.T) {
	s, db, _ := fresh(t)
	ctx := t.Context()
	exec := func(q string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(ctx, q, args...); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	want := func(sql, want string) {
		t.Helper()
		var got string
		if err := db.QueryRowContext(ctx, sql).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", sql, got, err, want)
		}
	}
	const backlog = `SELECT concat_ws(' ', pending, exact, deferred, oldest_seconds >= 0 AND oldest_seconds < 3600) FROM skald_backlog`
	want(backlog, "0 1 0 1")
	leased, err := s.Lease(ctx, store.LeaseRequest{Owner: "views", Session: "1"})
	if err != nil || len(leased.Shards) != 16 {
		t.Fatalf("%d shards, %v", len(leased.Shards), err)
	}
	for n := range 32 { // two rows for each shard, the second batch without a bucket
		if n < 16 {
			exec(`INSERT INTO skald_outbox (topic, key, type, bucket) VALUES ('t', ?, 't', ?)`,
				fmt.Sprint(n), n*64)
		} else {
			exec(`INSERT INTO skald_outbox (topic, key, type) VALUES ('t', ?, 't')`, fmt.Sprint(n))
		}
	}
	want(backlog, "32 1 0 1")
	page, err := s.Pull(ctx, store.Window{Tip: "32"}, 1)
	if err != nil || len(page.Rows) != 1 {
		t.Fatal(page, err)
	}
	for i, l := range leased.Shards {
		at := store.Cursor{Base: "16", Tip: "16"}
		if i < 4 { // in the middle of a window
			at = store.Cursor{Base: "", Tip: "20", Seq: 18}
		}
		p := store.Progress{Shard: l.ID, Epoch: l.Epoch, Token: l.Token, Cursor: &at}
		if i == 0 {
			p.Deferred = []store.DeferredRow{{Row: page.Rows[0], Attempts: 1, Why: "too large"}}
		}
		if held, err := s.Apply(ctx, store.Effect{Shard: &p}); err != nil || !held[0] {
			t.Fatal(held, err)
		}
	}
	want(`SELECT group_concat(state || ' ' || n) FROM (SELECT state, count(*) AS n FROM skald_outbox_state GROUP BY state ORDER BY state)`, "deferred 1,pending 16,published 15")
	want(`SELECT concat_ws(' ', min(seq), max(seq), count(*), count(shard)) FROM skald_outbox_pending`,
		"17 32 16 0")
	want(`SELECT concat_ws(' ', reason, attempts, shard, key) FROM skald_outbox_state WHERE state = 'deferred'`, "too large 1 0 0")
	want(backlog, "16 1 1 1")
	want(`SELECT concat_ws(' ', count(*), sum(pending), min(owner), min(lease_until) > strftime('%Y', 'now')) FROM skald_shards`, "16 0 views 1")
	exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000)
		INSERT INTO skald_outbox (topic, key, type, bucket) SELECT 't', i, 't', i % 1024 FROM n`)
	want(`SELECT concat_ws(' ', abs(pending - 40016) < 50, exact) FROM skald_backlog`, "1 0")
	want(`SELECT concat_ws(' ', abs(pending - 2501) <= 64, exact, oldest_at > '2020') FROM skald_shards WHERE shard = 7`, "1 0 1")
	maintained(t, s, store.Retention{})
	want(`SELECT concat_ws(' ', count(*), sum(ran_seconds BETWEEN 0 AND 3600), count(removed_at)) FROM skald_retention`, "5 5 0")
	for _, q := range []string{`SELECT * FROM skald_backlog`, `SELECT * FROM skald_shards`,
		`SELECT * FROM skald_outbox_pending`,
		`SELECT * FROM skald_outbox_state WHERE seq = 7`,
		`SELECT * FROM skald_outbox_state WHERE seq BETWEEN 7 AND 70`} {
		if plan := planOf(t, db, q); strings.Contains(plan, "SCAN skald_outbox\n") ||
			strings.Contains(plan, "SCAN o\n") {
			t.Errorf("%s reads the whole outbox:\n%s", q, plan)
		}
	}
}

// TestViewOfKeys checks a mark of each kind in the view.
func TestViewOfKeys(t *testing.T) {
	s, db, _ := fresh(t)
	saysView(t, db, storetest.KeysView, storetest.Keyed(t, s))
}

// TestViewsOfStepsAndCalls checks a step of each kind, and calls, in the views.
func TestViewsOfStepsAndCalls(t *testing.T) {
	s, db, _ := fresh(t)
	steps, calls := storetest.Viewed(t, s)
	saysView(t, db, storetest.StepsView, steps)
	saysView(t, db, storetest.CallsView, calls)
}

// saysView compares the lines of a query on a view.
func saysView(t *testing.T, db *sql.DB, view string, want []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), view)
	if err != nil {
		t.Fatal(err)
	}
	got, err := sqlexec.Collect(rows, func(scan func(...any) error) (line string, err error) {
		err = scan(&line)
		return line, err
	})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("the view has\n%q, want\n%q: %v", got, want, err)
	}
}

func planOf(t *testing.T, db *sql.DB, q string) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+q)
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	lines, err := sqlexec.Collect(rows, func(scan func(...any) error) (line string, err error) {
		var a, b, c int
		return line, scan(&a, &b, &c, &line)
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n") + "\n"
}
