package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/admin"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// oldSlot returns a slot that Maintain may empty now, by the database's clock.
func (b *bed) oldSlot(t *testing.T) int {
	t.Helper()
	today := one[int](t, b, `SELECT floor(extract(epoch FROM now()) / 86400)::integer`)
	return (today - 8) % admin.Default().Slots()
}

// cover moves all shards to tip.
func cover(t *testing.T, s *Store, tip string) {
	t.Helper()
	ctx := context.Background()
	got, err := s.Lease(ctx, store.LeaseRequest{Owner: "a", Session: "1", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var es []store.Effect
	for _, l := range got.Shards {
		es = append(es, store.Effect{Shard: &store.Progress{Shard: l.ID, Epoch: l.Epoch, Token: l.Token,
			Cursor: &store.Cursor{Base: tip}}})
	}
	if _, err := s.Apply(ctx, es...); err != nil {
		t.Fatal(err)
	}
}

func maintain(t *testing.T, s *Store) store.Maintained {
	t.Helper()
	done, err := s.Maintain(context.Background(), store.Maintain{})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

const insertOld = `INSERT INTO {skald_outbox} (topic, key, type, data, slot) VALUES ('orders', 'a', 't', '1', $1)`

// TestRetentionAgainstOpenWriter checks that a row that commits while the retention waits for its slot was
// seen by no shard, and stays.
// Interleaving 3.
func TestRetentionAgainstOpenWriter(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := context.Background()
	s, slot := b.store(t), b.oldSlot(t)
	f := newFollower(s)
	for round := range 3 {
		b.exec(t, insertOld, slot)
		if err := f.turn(ctx, 10); err != nil {
			t.Fatal(err)
		}
		tx, err := b.pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(ctx, b.q(insertOld), slot); err != nil {
			t.Fatal(err)
		}
		// today's writer continues
		b.exec(t, `INSERT INTO {skald_outbox} (topic, key, type, data) VALUES ('orders', 'b', 't', '1')`)
		if err := f.turn(ctx, 10); err != nil {
			t.Fatal(err)
		}
		cover(t, s, f.base)
		done := make(chan store.Maintained)
		go func() { done <- maintain(t, s) }()
		waiting := 0
		var got *store.Maintained
		for got == nil && waiting == 0 { // until the retention waits for the lock, or has given up
			select {
			case d := <-done:
				got = &d
			default:
				waiting = one[int](t, b,
					fmt.Sprintf(`SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '{skald_outbox_%d}'::regclass`, slot))
			}
		}
		if err := tx.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		if got == nil {
			d := <-done
			got = &d
		}
		if len(got.Left) != 1 || got.Rows != 0 {
			t.Errorf("round %d: Maintain during an open writer returned %+v", round, got)
		}
		if n := one[int](t, b, `SELECT count(*) FROM {skald_outbox} WHERE slot = $1`, slot); n != 2 {
			t.Fatalf("round %d: %d rows are left of 2", round, n)
		}
		if err := f.turn(ctx, 10); err != nil {
			t.Fatal(err)
		}
		cover(t, s, f.base)
		if done := maintain(t, s); len(done.Left) > 0 || done.Rows != -1 {
			t.Errorf("round %d: when all is covered maintain did %+v", round, done)
		}
		if n := one[int](t, b, `SELECT count(*) FROM {skald_outbox} WHERE slot = $1`, slot); n != 0 {
			t.Fatalf("round %d: %d rows are left", round, n)
		}
	}
	if len(f.rows) != 9 {
		t.Errorf("%d rows of 9 arrived", len(f.rows))
	}
}

// TestRetentionAgainstOpenHandler checks that a handler with a mark in progress, even of an old message,
// and the retention do not block each other.
// Interleaving 3.
func TestRetentionAgainstOpenHandler(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := context.Background()
	s := b.store(t)
	m, other := aMark(), aMark()
	m.ID, other.ID = uuid7.New(time.Now().Add(-32*admin.Day)), uuid7.New(time.Now().Add(-32*admin.Day))
	if _, err := s.Apply(ctx, store.Effect{Mark: &other}); err != nil {
		t.Fatal(err)
	}
	b.Age(t, 31*admin.Day)
	u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{m}})
	if err != nil {
		t.Fatal(err)
	}
	if done := maintain(t, s); len(done.Left) != 0 || done.Marks != 1 {
		t.Errorf("Maintain during an open handler returned %+v", done)
	}
	if err := u.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Seen(ctx, m.Consumer, []store.Identity{m.Identity}); err != nil ||
		v[0].Outcome != store.Done {
		t.Errorf("the handler's mark is %v, %v", v, err)
	}
}

func TestRetentionBounds(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.store(t)
	for _, keep := range []store.Retention{{Outbox: 9 * admin.Day},
		{Outbox: 7 * admin.Day, Marks: 6 * admin.Day}, {Outbox: -1}} {
		if _, err := s.Maintain(context.Background(), store.Maintain{Keep: keep}); err == nil {
			t.Errorf("maintain takes %+v", keep)
		}
	}
}

// TestOldTicksGo checks that ticks that no shard needs are deleted an hour later; one that a shard needs
// stays.
func TestOldTicksGo(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := context.Background()
	s := b.store(t)
	f := newFollower(s)
	var bases []string
	for range 5 {
		b.exec(t, insertOld, 0)
		if err := f.turn(ctx, 10); err != nil {
			t.Fatal(err)
		}
		bases = append(bases, f.base)
	}
	cover(t, s, bases[2])
	maintain(t, s)
	if n := one[int](t, b, `SELECT count(*) FROM {skald_snapshot}`); n != 5 {
		t.Errorf("of young ticks %d are left of 5", n)
	}
	b.exec(t, `UPDATE {skald_snapshot} SET at = at - interval '2 hours'`)
	maintain(t, s)
	if n := one[int](t, b, `SELECT count(*) FROM {skald_snapshot}`); n != 3 {
		t.Errorf("%d ticks are left, want 3", n)
	}
	if _, err := store.Snapshot(ctx, s, bases[2]); err != nil {
		t.Errorf("the tick that the shards need: %v", err)
	}
	if _, err := store.Snapshot(ctx, s, bases[0]); !errors.Is(err, store.ErrMoved) {
		t.Errorf("a tick that is gone: %v", err)
	}
	b.exec(t, `UPDATE {skald_snapshot} SET token = 'another'`)
	_, err := store.Snapshot(ctx, s, bases[4])
	_, pull := s.Pull(ctx, store.Window{Base: bases[2], Tip: bases[4]}, 1)
	if !errors.Is(err, store.ErrMoved) || !errors.Is(pull, store.ErrMoved) {
		t.Errorf("in a database that went back in time: %v, %v", err, pull)
	}
}

// TestPausedInbox checks that the database ends the transaction of an inbox that is paused during its
// handler, and that a rival continues.
// Interleaving 11.
func TestPausedInbox(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := context.Background()
	s, rival := b.store(t), b.storeIn(t, pgx.QueryExecModeExec)
	m := aMark()
	paused, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{m}, Handle: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	u, err := rival.Begin(ctx, store.Intake{Marks: []store.Mark{m}, Wait: 5 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if got := u.Found().Marks[0].Outcome; got != store.Fresh {
		t.Errorf("the rival finds %v", got)
	}
	if err := u.Commit(ctx, store.Effect{Rows: rowsOf(aMessage("a"))}); err != nil {
		t.Fatal(err)
	}
	err = paused.Commit(ctx, store.Effect{Rows: rowsOf(aMessage("a"))})
	if err == nil || !s.Outage(err) {
		t.Errorf("the paused one commits: %v", err)
	}
	if got := b.Count(t); got.Rows != 1 || got.Marks != 1 {
		t.Errorf("the database has %+v", got)
	}
}

// TestOutage checks which errors are outages.
// Interleaving 14.
func TestOutage(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := context.Background()
	s := b.store(t)
	for code, want := range map[string]bool{"40001": true, "40P01": true, "55P03": true, "57014": true,
		"57P01": true, "57P03": true, "53300": true,
		"08006": true, "25006": true, "25P03": true, "23505": false, "22012": false, "42601": false,
		"P0001": false, "SK001": false} {
		_, err := b.pool.Exec(ctx, "DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '"+code+"'; END $$")
		if err == nil || s.Outage(err) != want {
			t.Errorf("%s (%v) is an outage: %v, want %v", code, err, s.Outage(err), want)
		}
	}
	away := New(b.connectTo(t, "postgres://nobody:sesame@127.0.0.1:1/none?connect_timeout=2"), nil)
	_, err := store.Snapshot(ctx, away, "")
	if !away.Outage(err) || strings.Contains(err.Error(), "sesame") {
		t.Errorf("a server that is away: %v", err)
	}
	closed := b.store(t)
	closed.pool.Close()
	if _, err := store.Snapshot(ctx, closed, ""); !closed.Outage(err) {
		t.Errorf("a pool that is closed: %v", err)
	}
	short, stop := context.WithTimeout(ctx, time.Nanosecond)
	defer stop()
	if _, err := store.Snapshot(short, s, ""); !s.Outage(err) {
		t.Errorf("a deadline that is over: %v", err)
	}
	reader := b.store(t)
	conn, err := reader.pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, "SET default_transaction_read_only = on"); err != nil {
		t.Fatal(err)
	}
	conn.Release()
	if _, err := store.Snapshot(ctx, reader, ""); err != nil {
		t.Errorf("a tick with default_transaction_read_only: %v", err)
	}
}

// TestReadOnlyByAFunction checks that a lent transaction that the function made READ ONLY is no outage.
func TestReadOnlyByAFunction(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s, ctx := b.store(t), context.Background()
	for _, writes := range []bool{false, true} {
		m := aMark()
		u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{m}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := u.Tx().Exec(ctx, "SET TRANSACTION READ ONLY"); err != nil {
			t.Fatal(err)
		}
		if writes {
			_, err := u.Tx().Exec(ctx, "CREATE TABLE nowhere ()")
			if sqlexec.SQLState(err) != "25006" || u.Outage(ctx, err) {
				t.Errorf("the function's own statement is an outage: %v", err)
			}
		}
		err = u.Commit(ctx, store.Effect{Rows: rowsOf(aMessage("a"))})
		if err == nil || s.Outage(err) || !writes && !strings.Contains(err.Error(), "remove that statement") {
			t.Errorf("the commit is an outage: %v", err)
		}
	}
	if got := b.Count(t); got.Rows != 0 || got.Marks != 0 {
		t.Errorf("the database has %+v", got)
	}
}

// TestRoleLeftByAFunction checks that the error of a missing right at the commit names a role that a
// function set as a possible cause.
func TestRoleLeftByAFunction(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s, ctx := b.store(t), context.Background()
	u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{aMark()}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.Tx().Exec(ctx, "SET ROLE pg_monitor"); err != nil {
		t.Fatal(err)
	}
	err = u.Commit(ctx, store.Effect{Rows: rowsOf(aMessage("a"))})
	if err == nil || s.Outage(err) || !strings.Contains(err.Error(), "RESET ROLE") {
		t.Errorf("the commit returned %v", err)
	}
	if got := b.Count(t); got.Rows != 0 || got.Marks != 0 {
		t.Errorf("the database has %+v", got)
	}
}

// TestMarksGoHoweverMany checks that a run deletes any number of marks, or reports that there are more.
func TestMarksGoHoweverMany(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.exec(t, `INSERT INTO {skald_mark} (consumer, source, id, outcome, at)
		SELECT 'c', 's', n::text, 1, now() - interval '40 days' FROM generate_series(1, 120000) AS n`)
	s := b.store(t)
	var gone int64
	for more := true; more; {
		did, err := s.Maintain(t.Context(), store.Maintain{})
		if err != nil {
			t.Fatal(err)
		}
		gone, more = gone+did.Marks, did.More
	}
	if gone != 120_000 {
		t.Errorf("%d of 120000 are gone", gone)
	}
}

// TestLeafIsEmptiedUnread checks that the retention does not read the rows of a leaf to see whether all are
// published, because the leaf is locked meanwhile.
func TestLeafIsEmptiedUnread(t *testing.T) {
	t.Parallel()
	b, ctx := newBed(t), context.Background()
	s := b.store(t)
	const slot = "(floor(date_part('epoch', now()) / 86400)::bigint + 2) % 10" // of a day that is over
	b.exec(t, `INSERT INTO {skald_outbox} (topic, key, type, data, slot) SELECT 'orders', 'k', 'x', '1', `+
		slot+` FROM generate_series(1, 50000)`)
	if _, err := s.Lease(ctx, store.LeaseRequest{Owner: "one", Session: "1", TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	base, err := store.Snapshot(ctx, s, "")
	if err != nil {
		t.Fatal(err)
	}
	b.exec(t, `UPDATE {skald_shard} SET base = $1`, base)
	b.exec(t, `VACUUM ANALYZE {skald_outbox}`)
	leaf := one[string](t, b, `SELECT 'skald_outbox_' || (`+slot+`)::text`)
	did, err := s.Maintain(ctx, store.Maintain{})
	if err != nil || did.Rows == 0 || len(did.Left) > 0 {
		t.Fatalf("the leaf was not emptied: %+v, %v", did, err)
	}
	b.until(t, "the statistics are up to date",
		`SELECT n_live_tup = 0 FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = $2`,
		b.schema, leaf)
	if n := one[int64](t, b,
		`SELECT seq_tup_read FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = $2`, b.schema,
		leaf); n > 100 {
		t.Errorf("%d rows of the leaf were read in scans", n)
	}
}
