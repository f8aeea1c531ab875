package pgstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// follower is a relay without a broker: it opens windows and reads each to its end.
type follower struct {
	s    *Store
	base string
	rows []store.Row
	seen map[int64]bool
}

// turn is one complete turn of a relay.
func (f *follower) turn(ctx context.Context, limit int) error {
	tip, err := store.Snapshot(ctx, f.s, f.base)
	if err != nil || tip == f.base {
		return err
	}
	w := store.Window{Base: f.base, Tip: tip}
	for {
		page, err := f.s.Pull(ctx, w, limit)
		if err != nil {
			return err
		}
		for _, r := range page.Rows {
			if r.Seq <= w.After {
				return fmt.Errorf("row %d comes behind %d", r.Seq, w.After)
			}
			w.After = r.Seq
			if f.seen[r.Seq] {
				return fmt.Errorf("row %d comes twice", r.Seq)
			}
			f.seen[r.Seq] = true
		}
		f.rows = append(f.rows, page.Rows...)
		if page.Done {
			f.base = tip
			return nil
		}
	}
}

func newFollower(s *Store) *follower { return &follower{s: s, seen: map[int64]bool{}} }

// wantOrder fails the test unless the rows of each key are 1, 2, 3, …: the version that the writer took
// under the key's lock.
func wantOrder(t *testing.T, rows []store.Row, want map[string]int) {
	t.Helper()
	last := map[string]int{}
	for _, r := range rows {
		var n int
		if _, err := fmt.Sscanf(string(r.Data), `{"n":%d}`, &n); err != nil {
			t.Fatal(err)
		}
		if k := string(r.Key); n != last[k]+1 {
			t.Fatalf("key %s: %d arrived after %d", k, n, last[k])
		}
		last[string(r.Key)] = n
	}
	for k, n := range want {
		if last[k] != n {
			t.Fatalf("key %s: %d of %d arrived", k, last[k], n)
		}
	}
}

// writer is a writer of the model checker: BEGIN, lock the key's row, insert the row of the outbox, COMMIT.
type writer struct {
	b    *bed
	s    *Store
	key  string
	tx   pgx.Tx
	next int
}

func (w *writer) step(ctx context.Context) (err error) {
	defer func() { w.next++ }()
	switch w.next {
	case 0:
		w.tx, err = w.s.pool.Begin(ctx)
		return err
	case 1: // each takes its transaction ID here, one of them before the other
		_, err = w.tx.Exec(ctx, w.b.q(`INSERT INTO {kv} VALUES ($1, 'v')`), w.key)
		return err
	case 2:
		return w.s.Write(ctx, w.tx, store.Effect{Rows: []skald.Message{numbered(w.key, 1)}})
	}
	return w.tx.Commit(ctx)
}

func numbered(key string, n int) skald.Message {
	m := aMessage(key)
	m.Data = fmt.Appendf(nil, `{"n":%d}`, n)
	return m
}

// merges returns all orders of a steps of one actor with b of the other; false is the first actor.
func merges(a, b int) [][]bool {
	if a == 0 && b == 0 {
		return [][]bool{nil}
	}
	var out [][]bool
	if a > 0 {
		for _, rest := range merges(a-1, b) {
			out = append(out, append([]bool{false}, rest...))
		}
	}
	if b > 0 {
		for _, rest := range merges(a, b-1) {
			out = append(out, append([]bool{true}, rest...))
		}
	}
	return out
}

// TestEveryMergeOfTwoWriters checks all 70 merges of two writers, with a complete turn of a relay in each
// gap, and in one gap alone.
// Interleaving 15.
func TestEveryMergeOfTwoWriters(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.store(t)
	ctx := context.Background()
	all := merges(4, 4)
	if len(all) != 70 {
		t.Fatalf("%d merges", len(all))
	}
	always, never := newFollower(s), newFollower(s)
	sometimes := make([]*follower, 9) // the i-th reads only in gap i
	for i := range sometimes {
		sometimes[i] = newFollower(s)
	}
	want := map[string]int{}
	read := func(f *follower) {
		t.Helper()
		if err := f.turn(ctx, 3); err != nil {
			t.Fatal(err)
		}
	}
	for i, merge := range all {
		ws := [2]*writer{{b: b, s: s, key: fmt.Sprint("a", i)}, {b: b, s: s, key: fmt.Sprint("b", i)}}
		want[ws[0].key], want[ws[1].key] = 1, 1
		for gap := range 9 {
			read(always)
			read(sometimes[gap])
			if gap == 8 {
				break
			}
			w := ws[0]
			if merge[gap] {
				w = ws[1]
			}
			if err := w.step(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, f := range append(sometimes, always, never) {
		read(f)
		wantOrder(t, f.rows, want)
		if len(f.rows) != len(want) {
			t.Errorf("%d rows arrived, want %d", len(f.rows), len(want))
		}
	}
}

// TestAdversarialWriters runs writers of hot keys that take their transaction ID early, lock late and
// commit late. One transaction with rows stays open, and readers run all the time.
// Interleaving 15.
func TestAdversarialWriters(t *testing.T) {
	t.Parallel()
	t.Run("cache_statement",
		func(t *testing.T) { adversarialWriters(t, newBed(t), pgx.QueryExecModeCacheStatement) })
	t.Run("pgbouncer",
		func(t *testing.T) { adversarialWriters(t, through(t), pgx.QueryExecModeCacheDescribe) })
}

func adversarialWriters(t *testing.T, b *bed, mode pgx.QueryExecMode) {
	t.Helper()
	s := b.storeIn(t, mode)
	ctx := context.Background()
	b.exec(t, `CREATE TABLE {hot} (key text PRIMARY KEY, n integer NOT NULL)`)
	b.exec(t, `INSERT INTO {hot} SELECT 'k' || g, 0 FROM generate_series(0, 4) AS g`)
	old, err := b.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 50 {
		if err := s.Write(ctx, old, store.Effect{Rows: []skald.Message{numbered("old", n+1)}}); err != nil {
			t.Fatal(err)
		}
	}
	writers, pool := sync.WaitGroup{}, b.connect(t, mode)
	defer func() { go pool.Close() }()
	until := time.Now().Add(3 * time.Second)
	for range 8 {
		writers.Go(func() {
			for n := 0; n < 20 || time.Now().Before(until); n++ {
				if err := b.hotWrite(ctx, s, pool); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	readers, fs := sync.WaitGroup{}, []*follower{newFollower(s), newFollower(s), newFollower(s)}
	for i, f := range fs {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := f.turn(ctx, []int{1000, 7, 100}[i]); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	if err := old.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"old": 50}
	for i := range 5 {
		k := fmt.Sprint("k", i)
		want[k] = one[int](t, b, `SELECT n FROM {hot} WHERE key = $1`, k)
	}
	for _, f := range fs {
		if err := f.turn(ctx, 1000); err != nil {
			t.Fatal(err)
		}
		wantOrder(t, f.rows, want)
	}
	if len(fs[0].rows) < 100 {
		t.Errorf("only %d rows: the writers hardly met", len(fs[0].rows))
	}
	t.Logf("%d rows in %d ticks", len(fs[0].rows), one[int](t, b, `SELECT count(*) FROM {skald_snapshot}`))
}

func (b *bed) hotWrite(ctx context.Context, s *Store, pool interface {
	Begin(context.Context) (pgx.Tx, error)
}) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	pause := func() error {
		_, err := tx.Exec(ctx, `SELECT pg_sleep($1)`, rand.Float64()*0.008)
		return err
	}
	if rand.IntN(2) == 0 {
		if _, err := tx.Exec(ctx, `SELECT pg_current_xact_id()`); err != nil {
			return err
		}
		if err := pause(); err != nil {
			return err
		}
	}
	key, n := fmt.Sprint("k", rand.IntN(5)), 0
	if err := tx.QueryRow(ctx, b.q(`UPDATE {hot} SET n = n + 1 WHERE key = $1 RETURNING n`),
		key).Scan(&n); err != nil {
		return err
	}
	if err := s.Write(ctx, tx, store.Effect{Rows: []skald.Message{numbered(key, n)}}); err != nil {
		return err
	}
	if err := pause(); err != nil {
		return err
	}
	if rand.IntN(10) == 0 {
		return tx.Rollback(ctx)
	}
	return tx.Commit(ctx)
}
