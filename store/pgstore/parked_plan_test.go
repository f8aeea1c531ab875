package pgstore

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestParkedMessagesStayCheap checks that 30,000 parked messages, most of them of one key, do not slow down
// the next message: with plans for an empty table without ANALYZE, and with plans after any ANALYZE.
// Remaining marks do not slow down the search for expired ones.
// Interleaving 12.
func TestParkedMessagesStayCheap(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.store(t)
	ctx := context.Background()
	for _, table := range []string{"skald_parked", "skald_mark"} {
		b.exec(t, "ALTER TABLE {"+table+"} SET (autovacuum_enabled = off)")
	}
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	run := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	run("VACUUM ANALYZE " + b.q("{skald_parked}")) // the statistics show an empty table
	run("SET plan_cache_mode = force_generic_plan")
	const kept = `NULL, '', '', now(), 'no such column', 'h', NULL, '', '', '', ''`
	pages := map[string]int{}
	calls := map[string]struct{ sql, args string }{
		"turn of a fresh one": {"KeyOrder", `(1, 'stock', '/o', 'new', 'hot', NULL)`},
		"one that arrives": {"InsertArriving",
			`('stock', '/o', '01a20000-0000-7000-8000-000000000001', 1, NULL, NULL, 1, false, 'hot')`},
		"one without a time":  {"InsertArriving", `('stock', '/o', 'new', 1, NULL, NULL, 0, false, 'cold')`},
		"turn of another key": {"KeyOrder", `(1, 'stock', '/o', 'new', 'cold', NULL)`},
		"turns of others": {"FindKeyOrders",
			`('stock', '{/o,/o}', '{new,newer}', '{cold,colder}', '{0,0}', '{1,2}', '{/o}', '{1,1}')`},
		"turns of the key": {"FindKeyOrders",
			`('stock', '{/o,/o}', '{new,newer}', '{hot,cold}', '{0,0}', '{1,2}', '{/o}', '{1,1}')`},
		"claimed, in a batch": {"FindClaimed",
			`('stock', '{hot,k30000}', '{2,1}', '{0,2}', '{/o,/o,/o}', '{m1,m2,m30000}', '{1,0,1}', '{1,2,3}', '{}', '{}', '{}', '{}')`},
		"done, in a batch": {"FinishMany", `('stock', '{1}', '{/o}', '{m1}', '{1}', '{""}')`},
		"parked of another": {"InsertParked", `('stock', '/o', 'new', 0, 1, true, ` + kept +
			`, 'cold', 't', 'x', '', '{}', 9, 'l', 1, '', 1, 2000000, 2000000000, NULL, 0, 0, '', '')`},
		"one that was claimed": {"InsertClaimed",
			`('stock', '/o', '01a20000-0000-7000-8000-000000000003', 1, NULL, NULL, 1, true, 'hot', 1)`},
		"the same, timeless": {"InsertClaimed", `('stock', '/o', 'm1', 1, NULL, NULL, 0, true, 'hot', 1)`},
		"another that arrives": {"InsertArriving",
			`('stock', '/o', '01a20000-0000-7000-8000-000000000002', 1, NULL, NULL, 1, false, 'cold')`},
		"turn of the first": {"KeyOrder", `(1, 'stock', '/o', 'm1', 'hot', 1)`},
		"parked behind": {"InsertParked", `('stock', '/o', 'new', 0, 1, true, ` + kept +
			`, 'hot', 't', 'x', '', '{}', 9, 'l', 1, '', 1, 2000000, 2000000000, NULL, 0, 0, '', '')`},
		"parked again": {"UpdateParked", `('stock', '/o', 'm1', 1, 1, true, ` + kept +
			`, 1, NULL, 0, 0, '', '', NULL, NULL, '')`},
		"settled":              {"SettleParked", `('stock', '/o', 'm1')`},
		"the first is done":    {"FinishParked", `('stock', '/o', 'm1', 1, '', NULL, 1)`},
		"released":             {"RequeueParked", `('stock', '/o', 'm1', NULL, NULL)`},
		"behind a call":        {"StepBack", `('stock', '/o', 'm1')`},
		"let go":               {"LetGo", `('stock', '/o', 'm1', 'saga', 'step', '')`},
		"what was done":        {"AuditedLast", `(9223372036854775807, 1000)`},
		"claimed":              {"Claim", `('stock', 10, 300000, 'life', '{}', 0, 0)`},
		"claimed with others":  {"Claim", `('stock', 10, 300000, 'life', '{}', 50, 100)`},
		"when the next is due": {"NextDue", `('stock', '{}')`},
		"numbers given out":    {"After", ``},
		"marks that go":        {"DeleteMarks", `(86400000000, 4800000000)`},
	}
	const most = 300 // all of them are some 1,500, with their indexes
	explain := func(name, sql, args string) string {
		t.Helper()
		run("BEGIN")
		switch {
		case strings.HasPrefix(sql, "InsertArriving"), strings.HasPrefix(sql, "InsertClaimed"):
			run("EXECUTE takearrive(1, '5000', '5000', NULL)")
		case sql != "KeyOrder": // it has its own limit
			run(s.pg.SQL["Walk"])
			run("SET LOCAL skald.kept = ''")
		}
		rows, err := conn.Query(ctx, "EXPLAIN (ANALYZE, BUFFERS) EXECUTE "+strings.ToLower(sql)+args,
			pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		run("ROLLBACK")
		return strings.Join(lines, "\n")
	}
	measure := func() {
		t.Helper()
		for name, c := range calls {
			plan := explain(name, c.sql, c.args)
			// DDL of another test makes the session read its catalogue again, and those pages count, too.
			for tries := 0; hits(plan) > most && tries < 5; tries++ {
				plan = explain(name, c.sql, c.args)
			}
			if pages[name] = hits(plan); pages[name] > most {
				t.Errorf("%s touches %d pages:\n%s", name, pages[name], plan)
			}
		}
	}
	for _, c := range calls {
		if _, err := conn.Exec(ctx, "PREPARE "+strings.ToLower(c.sql)+" AS "+s.pg.SQL[c.sql],
			pgx.QueryExecModeSimpleProtocol); err != nil && !strings.Contains(err.Error(), "already exists") {
			t.Fatal(err)
		}
	}
	run("PREPARE takearrive AS " + s.pg.SQL["TakeArrive"])
	for _, rows := range []string{"1, 1", "2, 20000", "20001, 30000"} {
		run("INSERT" + b.parkedRows(rows))
		if rows == "2, 20000" { // all of one key
			run(
				b.q("INSERT INTO {skald_mark} (consumer, source, id, outcome) SELECT 'stock', '/o', 'm' || g, 1 FROM generate_series(1, 20000) AS g"))
			measure()
			run("ANALYZE " + b.q("{skald_parked}"))
		}
		measure()
	}
	run("ANALYZE " + b.q("{skald_parked}"))
	measure()
	t.Logf("pages: %v", pages)
	run("DEALLOCATE ALL; RESET plan_cache_mode")
}

// hits returns the total number of pages of a plan.
func hits(plan string) (n int) {
	m := regexp.MustCompile(`Buffers: shared hit=(\d+)(?: read=(\d+))?`).FindStringSubmatch(plan)
	for _, digits := range m[min(1, len(m)):] {
		part := 0
		for _, d := range digits {
			part = 10*part + int(d-'0')
		}
		n += part
	}
	return n
}

// parkedRows inserts parked messages: up to 20,000 of the key hot, then some with keys of their own.
func (b *bed) parkedRows(fromTo string) string {
	return b.q(` INTO {skald_parked} (consumer, source, id, key_lock, key, topic, type, data, envelope, bytes, partition, position, fault, attempts, due, waiting, blocks_key,
		first_error, first_host, last_error, last_host, kind, fingerprint, stack, version, running_count, running_bytes)
		SELECT 'stock', '/o', 'm' || g, g, CASE WHEN g <= 20000 THEN 'hot' ELSE 'k' || g END::bytea, 't', 'x', '"x"', '{}', 9, 'l', g, '', CASE WHEN g = 1 OR g > 20000 THEN 1 ELSE 0 END,
			now() + CASE WHEN g > 20000 THEN interval '1 hour' ELSE interval '0' END, g BETWEEN 2 AND 20000, true, '', '', '', '', '', '', '', '', g, g * 9 FROM generate_series(` + fromTo + `) AS g`)
}
