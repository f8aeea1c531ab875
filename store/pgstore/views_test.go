package pgstore

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/storetest"
)

// reel reads the outbox as a relay does, for some shards, and stores its position in the database.
type reel struct {
	s      *Store
	shards []store.Shard
	at     store.Cursor
	took   map[int64]bool // rows that it published or deferred
	aside  map[int64]bool
}

// step opens a window, or reads a page of it.
func (r *reel) step(ctx context.Context, rnd *rand.Rand) error {
	if r.at.Tip == r.at.Base {
		tip, err := store.Snapshot(ctx, r.s, r.at.Base)
		if err != nil {
			return err
		}
		r.at.Tip, r.at.Seq = tip, 0
		return r.save(ctx, nil)
	}
	var buckets [][2]int
	for _, l := range r.shards {
		buckets = append(buckets, [2]int{l.First, l.Last})
	}
	page, err := r.s.Pull(ctx, store.Window{Base: r.at.Base, Tip: r.at.Tip, After: r.at.Seq,
		Buckets: buckets}, 3)
	if err != nil {
		return err
	}
	var asides []store.DeferredRow
	for _, row := range page.Rows {
		r.took[row.Seq], r.at.Seq = true, row.Seq
		if rnd.IntN(20) == 0 {
			r.aside[row.Seq] = true
			asides = append(asides, store.DeferredRow{Row: row, Attempts: 1, Why: "too large"})
		}
	}
	if page.Done {
		r.at = store.Cursor{Base: r.at.Tip, Tip: r.at.Tip}
	}
	return r.save(ctx, asides)
}

func (r *reel) save(ctx context.Context, asides []store.DeferredRow) error {
	for _, l := range r.shards {
		at := r.at
		p := store.Progress{Shard: l.ID, Epoch: l.Epoch, Token: l.Token, Cursor: &at}
		for _, a := range asides {
			if a.Bucket >= l.First && a.Bucket <= l.Last {
				p.Deferred = append(p.Deferred, a)
			}
		}
		if held, err := r.s.Apply(ctx, store.Effect{Shard: &p}); err != nil || !held[0] {
			return fmt.Errorf("save shard %d: %v, %w", l.ID, held, err)
		}
	}
	return nil
}

// TestViewsAgreeWithRelays checks that the views agree with the rows that relays have read, for late
// commits and any position.
func TestViewsAgreeWithRelays(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for seed := range uint64(4) {
		b := newBed(t)
		s := b.store(t)
		rnd := rand.New(rand.NewPCG(seed, 7))
		leased, err := s.Lease(ctx, store.LeaseRequest{Owner: "views", Session: "1", TTL: time.Hour})
		if err != nil || len(leased.Shards) != 16 {
			t.Fatalf("%d shards, %v", len(leased.Shards), err)
		}
		var reels []*reel
		for _, shards := range [][]store.Shard{leased.Shards[:5], leased.Shards[5:9], leased.Shards[9:]} {
			reels = append(reels, &reel{s: s, shards: shards, took: map[int64]bool{},
				aside: map[int64]bool{}})
		}
		var open []pgx.Tx
		for n := range 250 {
			switch k := rnd.IntN(10); {
			case k < 2 && len(open) < 6:
				tx, err := b.pool.Begin(ctx)
				if err != nil {
					t.Fatal(err)
				}
				open = append(open, tx)
			case k < 5 && len(open) > 0:
				if _, err := open[rnd.IntN(len(open))].Exec(ctx,
					b.q(`INSERT INTO {skald_outbox} (topic, key, type, data) VALUES ('t', $1, 't', '1')`),
					fmt.Sprint(rnd.IntN(99))); err != nil {
					t.Fatal(err)
				}
			case k < 6 && len(open) > 0:
				i := rnd.IntN(len(open))
				if err := open[i].Commit(ctx); err != nil {
					t.Fatal(err)
				}
				open = slices.Delete(open, i, i+1)
			default:
				if err := reels[rnd.IntN(3)].step(ctx, rnd); err != nil {
					t.Fatal(err)
				}
			}
			if n%10 == 0 {
				b.compare(t, reels, fmt.Sprintf("seed %d, step %d", seed, n))
			}
		}
		for _, tx := range open {
			if err := tx.Commit(ctx); err != nil {
				t.Fatal(err)
			}
		}
		b.compare(t, reels, fmt.Sprintf("seed %d, the end", seed))
		if t.Failed() {
			return
		}
	}
}

// compare compares every view.
func (b *bed) compare(t *testing.T, reels []*reel, when string) {
	t.Helper()
	want := map[int64]string{}
	for _, seq := range one[[]int64](t, b,
		`SELECT coalesce(array_agg(seq), ARRAY[]::bigint[]) FROM {skald_outbox}`) {
		want[seq] = "pending"
	}
	pending, asides := len(want), 0
	for _, r := range reels {
		for seq := range r.took {
			want[seq], pending = "published", pending-1
		}
		for seq := range r.aside {
			want[seq], asides = "deferred", asides+1
		}
	}
	got := map[int64]string{}
	rows, err := b.pool.Query(context.Background(), b.q(`SELECT seq, state FROM {skald_outbox_state}`))
	if err != nil {
		t.Fatal(err)
	}
	var seq int64
	var state string
	if _, err := pgx.ForEachRow(rows, []any{&seq, &state},
		func() error { got[seq] = state; return nil }); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s: skald_outbox_state has %v, want %v", when, got, want)
	}
	if n := one[int](t, b, `SELECT count(DISTINCT seq) FROM {skald_outbox_pending}`); n != pending {
		t.Errorf("%s: skald_outbox_pending has %d rows, want %d", when, n, pending)
	}
	if n := one[int](t, b,
		`SELECT count(*) FROM {skald_outbox_pending} AS p JOIN {skald_outbox_state} AS s USING (seq, shard) WHERE s.state = 'pending'`); n != pending {
		t.Errorf("%s: skald_outbox_pending has %d rows in the right shards, want %d", when, n, pending)
	}
	if n := one[int](t, b,
		`SELECT sum(pending) FROM {skald_shards} WHERE exact AND owner = 'views' AND (oldest_at IS NULL) = (pending = 0)`); n != pending {
		t.Errorf("%s: skald_shards have %d, want %d", when, n, pending)
	}
	if s := one[string](t, b,
		`SELECT concat_ws(' ', pending, exact, deferred, oldest_seconds >= 0 AND oldest_seconds < 3600) FROM {skald_backlog}`); s != fmt.Sprintf("%d t %d t", pending, asides) {
		t.Errorf("%s: skald_backlog has %q, want %d t %d t", when, s, pending, asides)
	}
}

// crowd fills the outbox with n rows.
func (b *bed) crowd(t testing.TB, n int) {
	t.Helper()
	for range n / 100_000 { // one transaction each
		b.exec(t, `INSERT INTO {skald_outbox} (topic, key, type, data, id, bucket)
			SELECT 'orders', 'k' || g, 'order.placed', repeat('x', 100), md5(random()::text)::uuid, g % 1024 FROM generate_series(1, 100000) AS g`)
	}
}

var viewsRows = flag.Int("views.rows", 300_000,
	"how many rows the outbox has whose views are to be cheap, in steps of 100,000")

// TestViewsAreCheap checks that no view reads the whole outbox, published or not, with and without
// statistics.
func TestViewsAreCheap(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: it writes many rows")
	}
	b := newBed(t)
	s := b.store(t)
	ctx := context.Background()
	// Only reading is measured.
	b.exec(t, `DROP TRIGGER IF EXISTS zz_skald_limits ON {skald_outbox}`)
	for slot := range 10 {
		b.exec(t, fmt.Sprintf(`ALTER TABLE {skald_outbox_%d} SET (autovacuum_enabled = off)`, slot))
	}
	lag, err := b.pool.Begin(ctx) // a transaction that was open before and commits late
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lag.Exec(ctx,
		b.q(
			`INSERT INTO {skald_outbox} (topic, key, type, data) VALUES ('orders', 'late', 't', '1')`)); err != nil {
		t.Fatal(err)
	}
	b.crowd(t, *viewsRows)
	// A bitmap of the whole index takes 3,900 pages for a million rows, and more while pages split. The rest
	// of the backlog takes less than 1,000.
	b.cheap(t, "all are pending, without statistics", *viewsRows/200+1000)
	b.exec(t, `ANALYZE {skald_outbox}`)
	b.cheap(t, "all are pending", 4000)
	if n := one[int](t, b, `SELECT pending FROM {skald_backlog} WHERE NOT exact`); n < *viewsRows/100*99 ||
		n > *viewsRows/100*101 {
		t.Errorf("of %d rows the estimate is %d", *viewsRows, n)
	}
	tip, err := store.Snapshot(ctx, s, "")
	if err != nil {
		t.Fatal(err)
	}
	b.exec(t, `UPDATE {skald_shard} SET base = $1, tip = $1 WHERE id > 0`, tip)
	b.cheap(t, "one shard stands still", 4000)
	b.exec(t, `UPDATE {skald_shard} SET base = $1, tip = $1`, tip)
	if err := lag.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	b.cheap(t, "one row came late", 4000)
	if key := one[string](t, b, `SELECT string_agg(key, ',') FROM {skald_outbox_pending}`); key != "late" {
		t.Errorf("pending is %q", key)
	}
	b.buffers(t, "pending of a key", 700, `SELECT * FROM {skald_outbox_pending} WHERE key = 'late'`)
	b.exec(t, `CREATE INDEX ON {skald_outbox} (key) WHERE key IS NOT NULL`)
	b.exec(t, `CREATE INDEX ON {skald_outbox} (id)`)
	b.buffers(t, "by key, with an index", 700, `SELECT * FROM {skald_outbox_state} WHERE key = 'k77'`)
	b.buffers(t, "by id, with an index", 300,
		`SELECT * FROM {skald_outbox_state} WHERE id = '01900000-0000-7000-8000-000000000000'`)
}

func (b *bed) cheap(t *testing.T, when string, most int) {
	t.Helper()
	for _, sql := range []string{
		`SELECT * FROM {skald_backlog}`,
		`SELECT * FROM {skald_shards}`,
		`SELECT * FROM {skald_retention}`,
		`SELECT * FROM {skald_outbox_state} WHERE seq = 4711`,
		`SELECT * FROM {skald_outbox_state} WHERE seq BETWEEN 4711 AND 4811`,
		`SELECT * FROM {skald_outbox_state} ORDER BY seq DESC LIMIT 100`,
		`SELECT * FROM {skald_outbox_state} ORDER BY seq LIMIT 100`,
		`SELECT * FROM {skald_outbox_state} LIMIT 100`,
		`SELECT * FROM {skald_outbox_pending} LIMIT 100`,
	} {
		b.buffers(t, when, most, sql) // 300,000 rows have 6,000 pages
	}
}

// buffers fails the test if a statement uses more than most pages.
func (b *bed) buffers(t *testing.T, when string, most int, sql string) {
	t.Helper()
	conn, err := b.pool.Acquire(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	var lines []string
	for range 2 { // the first one also reads the catalog, whose size depends on other tests
		rows, err := conn.Query(context.Background(), "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) "+
			b.q(sql), pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			t.Fatal(err)
		}
		if lines, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	m := regexp.MustCompile(`Buffers: shared (.*)`).FindStringSubmatch(strings.Join(lines, "\n"))
	if m != nil {
		for _, part := range regexp.MustCompile(`(hit|read)=(\d+)`).FindAllStringSubmatch(m[1], -1) {
			var k int
			_, _ = fmt.Sscan(part[2], &k)
			n += k
		}
	}
	t.Logf("%s: %s: %d pages, %s", when, sql, n, lines[len(lines)-1])
	plan := strings.Join(lines, "\n")
	// takes longer than reading
	compiled := strings.Contains(plan, "JIT:") && !strings.HasSuffix(when, "without statistics")
	if n == 0 || n > most || compiled {

		t.Errorf("%s: %s: %d pages, want at most %d:\n%s", when, sql, n, most, plan)
	}
}

// TestMaintenanceView checks that the view of the retention shows that it ran, the number of emptied
// leaves, and the age of the remaining rows.
func TestMaintenanceView(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.store(t)
	const view = `SELECT concat_ws(' ', ran_seconds BETWEEN 0 AND 3600, removed_seconds BETWEEN 0 AND 3600, oldest_seconds BETWEEN 0 AND 3600) FROM {skald_retention} WHERE name = 'skald_outbox'`
	if got := one[string](t, b, view); got != "" {
		t.Errorf("at first: %q", got)
	}
	b.exec(t, `INSERT INTO {skald_outbox} (topic, key, type) VALUES ('t', 'a', 't')`)
	maintain(t, s)
	if got := one[string](t, b, view); got != "t t" { // it ran; the row's age
		t.Errorf("with a row of today: %q", got)
	}
	tip, err := store.Snapshot(context.Background(), s, "")
	if err != nil {
		t.Fatal(err)
	}
	cover(t, s, tip)
	b.exec(t, `UPDATE {skald_outbox} SET slot = $1`, b.oldSlot(t))
	maintain(t, s)
	if got := one[string](t, b, view); got != "t t" { // it ran, and emptied a leaf
		t.Errorf("when it is emptied: %q", got)
	}
	if n := one[int](t, b,
		`SELECT count(*) FROM {skald_retention} WHERE removed_at IS NOT NULL AND oldest_at IS NULL`); n != 1 {
		t.Errorf("%d tables were emptied", n)
	}
}

// TestViewOfKeys checks a mark of each kind in the view.
func TestViewOfKeys(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	want := storetest.Keyed(t, b.store(t))
	b.saysView(t, strings.ReplaceAll(storetest.KeysView, "CAST(result AS text)",
		"convert_from(result, 'UTF8')"), want)
}

// TestViewsOfStepsAndCalls checks a step of each kind, and calls, in the views.
func TestViewsOfStepsAndCalls(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	steps, calls := storetest.Viewed(t, b.store(t))
	b.saysView(t, storetest.StepsView, steps)
	b.saysView(t, storetest.CallsView, calls)
}

// saysView compares the lines of a query on a view.
func (b *bed) saysView(t *testing.T, view string, want []string) {
	t.Helper()
	named := strings.NewReplacer("skald_keys", "{skald_keys}", "skald_steps", "{skald_steps}", "skald_calls",
		"{skald_calls}").Replace(view)
	rows, err := b.pool.Query(t.Context(), b.q(named))
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("the view has\n%q, want\n%q: %v", got, want, err)
	}
}
