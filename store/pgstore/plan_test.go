package pgstore

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/admin"
	"github.com/skald-go/skald/store/pgstore/internal/query"
)

// explain returns the plan of a statement that a session made for empty tables and cached.
func (b *bed) explain(t *testing.T, conn *pgx.Conn, args string) string {
	t.Helper()
	ctx := context.Background()
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	c := newCore(nil, &Options{Schema: b.schema})
	if _, err := tx.Exec(ctx, c.pg.SQL["Walk"]); err != nil {
		t.Fatal(err)
	}
	rows, err := tx.Query(ctx, "EXPLAIN (ANALYZE, BUFFERS) EXECUTE "+args, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// TestPlansMadeOnEmptyTables checks that plans for empty tables stay good as the tables grow, without
// ANALYZE.
// Interleaving 15.
func TestPlansMadeOnEmptyTables(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.store(t)
	ctx := context.Background()
	b.exec(t, `ALTER TABLE {skald_shard} SET (autovacuum_enabled = off)`)
	for slot := range admin.Default().Slots() {
		b.exec(t, fmt.Sprintf(`ALTER TABLE {skald_outbox_%d} SET (autovacuum_enabled = off)`, slot))
	}
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, sql := range []string{`SET plan_cache_mode = force_generic_plan`, s.pg.SQL["Walk"],
		"PREPARE pull AS " + s.pg.SQL["Pull"], "PREPARE pullsome AS " + s.pg.SQL["PullSome"],
		"PREPARE pullon AS " + s.pg.SQL["PullOn"],
		"PREPARE pulllight AS " + s.pg.SQL["PullLight"], "PREPARE tick AS " + s.pg.SQL["Snapshot"]} {
		if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	b.explain(t, conn.Conn(), `tick(0, '', 'x')`)
	b.explain(t, conn.Conn(), `pull(0, '', 0, '', 0, 1001)`)
	b.fillOutbox(t, 10_000)
	mid, err := store.Snapshot(ctx, s, "")
	if err != nil {
		t.Fatal(err)
	}
	b.fillOutbox(t, 20_000)
	tip, err := store.Snapshot(ctx, s, mid)
	if err != nil {
		t.Fatal(err)
	}
	base, top := asTick(t, mid), asTick(t, tip)
	// Transactions of others that ran at the last tick, or took a number with it: each that has ended since
	// is looked up in each slot.
	var late int
	if err := conn.QueryRow(ctx,
		b.q(`SELECT (SELECT count(*) FROM pg_snapshot_xip(snapshot)) + least(own_txid::text::bigint - pg_snapshot_xmax(snapshot)::text::bigint, 1000)
		FROM {skald_snapshot} WHERE id = $1`), top.ID).Scan(&late); err != nil {
		t.Fatal(err)
	}
	most := 200 + 3*admin.Default().Slots()*late // 30,000 rows are about 1,500 pages
	pages := regexp.MustCompile(`Buffers: shared hit=(\d+)`)
	for name, plan := range map[string]string{
		"pull from the beginning": b.explain(t, conn.Conn(),
			fmt.Sprintf(`pull(0, '', %d, '%s', 25000, 1001)`, top.ID, top.Token)),
		"pull": b.explain(t, conn.Conn(), fmt.Sprintf(`pull(%d, '%s', %d, '%s', 25000, 1001)`, base.ID,
			base.Token, top.ID, top.Token)),
		"pull some": b.explain(t, conn.Conn(), fmt.Sprintf(`pullsome(%d, '%s', %d, '%s', 25000, 101, '%s')`,
			base.ID, base.Token, top.ID, top.Token, query.Bitmap([][2]int{{0, 511}}))),
		"pull on": b.explain(t, conn.Conn(), fmt.Sprintf(`pullon(%d, '%s', 25000, 1001)`, top.ID, top.Token)),
		"pull light": b.explain(t, conn.Conn(), fmt.Sprintf(`pulllight(%d, '%s', 25000, 1001, 6000)`, top.ID,
			top.Token)),
		"tick": b.explain(t, conn.Conn(), fmt.Sprintf(`tick(%d, '%s', 'x')`, top.ID, top.Token)),
	} {
		var n int
		if m := pages.FindStringSubmatch(plan); m != nil {
			_, _ = fmt.Sscan(m[1], &n)
		}
		if strings.Contains(plan, "Seq Scan on skald_outbox") || n == 0 || n > most {
			t.Errorf("%s: %d pages, with %d concurrent transactions:\n%s", name, n, late, plan)
		}
	}
}

func asTick(t *testing.T, s string) query.Tick {
	t.Helper()
	got, err := query.ParseTick(s)
	if err != nil {
		t.Fatal(err)
	}
	return got
}
