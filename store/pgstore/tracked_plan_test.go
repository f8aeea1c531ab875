package pgstore

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
)

// TestTrackedRowsAreFoundByTheIndex checks that a tracker's statements use the index, even with a plan for
// an empty table.
func TestTrackedRowsAreFoundByTheIndex(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.store(t)
	ctx := context.Background()
	b.exec(t, `ALTER TABLE {skald_tracked} SET (autovacuum_enabled = off)`)
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, sql := range []string{`SET plan_cache_mode = force_generic_plan`, "PREPARE lock AS " +
		s.pg.SQL["LockTracked"], "PREPARE save AS " + s.pg.SQL["SaveTracked"]} {
		if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	for _, call := range []string{`lock('order', '["o-1", "o-2"]')`,
		`save('[{"key": "o-1", "flow": "order"}]')`} {
		rows, err := conn.Query(ctx, "EXPLAIN EXECUTE "+call, pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if text := strings.Join(plan, "\n"); err != nil ||
			strings.Contains(text, "Seq Scan on skald_tracked") {
			t.Error(text, err)
		}
	}
}

// TestCountingTrackedSagasStaysCheap checks that counting tracked sagas reads parts of two indexes, even
// with a plan for an empty table: no ended sagas, and at most 10,000 of those that are running in time.
func TestCountingTrackedSagasStaysCheap(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.store(t)
	ctx := context.Background()
	b.exec(t, `ALTER TABLE {skald_tracked} SET (autovacuum_enabled = off)`)
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, sql := range []string{`SET plan_cache_mode = force_generic_plan`, "PREPARE counted AS " +
		s.pg.SQL["CountTracked"]} {
		if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	b.explain(t, conn.Conn(), "counted")
	b.exec(t, `INSERT INTO {skald_tracked} (flow, key, state, due, body)
		SELECT 'order', 'o-' || n, CASE WHEN n % 2 = 0 THEN 'running' ELSE 'done' END,
			CASE WHEN n % 2 = 0 THEN now() + CASE WHEN n % 1000 = 0 THEN -n ELSE 86400 + n END * interval '1 second' END, repeat('x', 500)
		FROM generate_series(1, 60000) AS n`)
	b.exec(t, `UPDATE {skald_tracked} SET drift = 1, drifted_at = now() WHERE key = 'o-7'`)
	eventually(t, "nearly all pages are all-visible; an old transaction can hold VACUUM back",
		func() bool {
			b.exec(t, `VACUUM {skald_tracked}`)
			return one[bool](t, b,
				`SELECT relallvisible > relpages - 10 FROM pg_class WHERE oid = '{skald_tracked}'::regclass`)
		})
	plan := b.explain(t, conn.Conn(), "counted")
	m := regexp.MustCompile(`Buffers: shared hit=(\d+)`).FindStringSubmatch(plan)
	if m == nil {
		t.Fatal(plan)
	}
	if n, _ := strconv.Atoi(m[1]); n > 600 { // the table has 4,600 pages
		t.Errorf("it reads %d pages:\n%s", n, plan)
	}
	counted, err := s.Status(ctx, store.StatusQuery{Sagas: true})
	got := counted.Tracked
	if err != nil || len(got) != 1 ||
		got[0] != (store.TrackedCounts{Flow: "order", Running: 10_000, Overdue: 60, OverdueKey: "o-60000",
			Drifted: 1, DriftedKey: "o-7"}) {
		t.Errorf("%+v, %v", got, err)
	}
}
