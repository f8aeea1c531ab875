package pgstore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/storetest"
)

// leveled is a store with one level of isolation for all units. It repeats a collision, as an inbox does.
type leveled struct {
	*Store
	level store.Isolation
}

func (l leveled) Begin(ctx context.Context, in store.Intake) (u store.Unit[pgx.Tx], err error) {
	in.Isolation = max(in.Isolation, l.level)
	for range 100 {
		if u, err = l.Store.Begin(ctx, in); !store.Collided(err) {
			break
		}
	}
	return u, err
}

type leveledSeat struct {
	seat
	level store.Isolation
}

func (s leveledSeat) Driver(t testing.TB) store.Driver[pgx.Tx] {
	return leveled{s.seat.Driver(t).(*Store), s.level}
}

// TestConformanceAtEveryLevel checks the contract of a unit at every level of isolation.
func TestConformanceAtEveryLevel(t *testing.T) {
	t.Parallel()
	for level, name := range map[store.Isolation]string{store.RepeatableRead: "repeatable read",
		store.Serializable: "serializable"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			u, err := b.store(t).Begin(t.Context(), store.Intake{Isolation: level})
			if err != nil {
				t.Fatal(err)
			}
			var is string
			if err := u.Tx().QueryRow(t.Context(), "SHOW transaction_isolation").Scan(&is); err != nil ||
				is != name {
				t.Errorf("a unit is %s: %v", is, err)
			}
			if _, err := u.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			h := storetest.Harness[pgx.Tx]{
				Open: func(t testing.TB) storetest.Database[pgx.Tx] {
					b.clear(t)
					return leveledSeat{seat{b, pgx.QueryExecModeCacheStatement}, level}
				},
				Can: storetest.Can[pgx.Tx]{Rivals: true, StopsCommit: true, Limits: true, Setting: setting},
				// Not Quarantine: the loser of a race there gets a retryable error, not a lost guard.
				Only: []string{"Unit", "Mark", "Many", "Prefetch", "Answer", "Keep", "Lock", "Step", "Parked",
					"Floor", "Kind", "Checkpoint", "Setting"},
			}
			h.Sample = sixteenth
			if level == store.Serializable { // it refuses more
				h.Sample = eighth
			}
			storetest.Run(t, h)
		})
	}
}

// TestWriteSkew checks that SERIALIZABLE lets only one of two handlers commit that each read the other's
// write.
func TestWriteSkew(t *testing.T) {
	t.Parallel()
	need.Postgres(t)
	b := newBed(t)
	ctx := context.Background()
	s := b.store(t)
	for level, both := range map[store.Isolation]bool{store.ReadCommitted: true, store.Serializable: false} {
		var units []store.Unit[pgx.Tx]
		for range 2 {
			u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{aMark()}, Isolation: level})
			if err != nil {
				t.Fatal(err)
			}
			units = append(units, u)
		}
		var errs []error
		for i, u := range units {
			var n int
			if err := u.Tx().QueryRow(ctx, b.q(`SELECT count(*) FROM {kv}`)).Scan(&n); err != nil {
				t.Fatal(err)
			}
			if _, err := u.Tx().Exec(ctx, b.q(`INSERT INTO {kv} VALUES ($1, 'v')`),
				fmt.Sprint(level, i)); err != nil {
				t.Fatal(err)
			}
		}
		for _, u := range units {
			if err := u.Commit(ctx); err != nil {
				errs = append(errs, err)
			}
		}
		if both && len(errs) > 0 || !both && (len(errs) != 1 || !store.Collided(errs[0]) ||
			!s.Outage(errs[0])) {
			t.Errorf("at level %d: %v", level, errs)
		}
	}
}

// TestPlansOfManyMessages checks that cached plans for many messages, made for empty tables, still use the
// index when many messages are parked, without ANALYZE. The planner's settings are reset for the handler.
// Interleavings 14, 15.
func TestPlansOfManyMessages(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.store(t)
	ctx := context.Background()
	b.exec(t, `ALTER TABLE {skald_parked} SET (autovacuum_enabled = off)`)
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	run := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	run("VACUUM ANALYZE " + b.q("{skald_parked}")) // the statistics show an empty table
	run("SET enable_sort = off; BEGIN")
	run(s.pg.SQL["Narrow"])
	run("PREPARE turns AS " + s.pg.SQL["FindKeyOrders"])
	run("PREPARE claimed AS " + s.pg.SQL["FindClaimed"])
	run("PREPARE marks AS " + s.pg.SQL["InsertMarks"])
	explain := func() string {
		rows, err := conn.Query(ctx,
			`EXPLAIN (ANALYZE) EXECUTE turns('stock', '{a,b}', '{12,b}', '{c,d}', '{0,0}', '{0,1}', '{a,b}', '{1,2}')`, pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			t.Fatal(err)
		}
		turns, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		rows, err = conn.Query(ctx,
			`EXPLAIN (ANALYZE) EXECUTE claimed('stock', '{c}', '{2}', '{0}', '{a,a}', '{0,1}', '{0,0}', '{0,1}', '{a}', '{7}', '{0}', '{2}')`, pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			t.Fatal(err)
		}
		claimed, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		turns = append(turns, claimed...)
		rows, err = conn.Query(ctx,
			fmt.Sprintf(`EXPLAIN (ANALYZE) EXECUTE marks('stock', '{a}', '{%s}', '{1}', '{NULL}', '{NULL}', '{0}', '{0}', '{f}')`, aMark().ID),
			pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			t.Fatal(err)
		}
		marks, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if plan := strings.Join(marks, "\n"); strings.Contains(plan, "skald_parked") {
			t.Error("what is parked is asked a second time for each message:", plan)
		}
		return strings.Join(append(turns, marks...), "\n")
	}
	explain()
	run(s.pg.SQL["Widen"])
	for name, want := range map[string]string{"enable_seqscan": "on", "enable_sort": "off",
		"plan_cache_mode": "auto"} {
		var got string
		if err := conn.QueryRow(ctx, "SELECT current_setting($1)", pgx.QueryExecModeSimpleProtocol,
			name).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %s for the handler, %v", name, got, err)
		}
	}
	run("COMMIT")
	var es []store.Effect
	for n := range 300 {
		m := aMessage("c")
		es = append(es,
			store.Effect{Park: &store.Park{Parked: store.Parked{Consumer: "stock",
				Identity: store.Identity{Source: "a", ID: fmt.Sprint(n)}, Message: m}}})
	}
	if _, err := s.Apply(ctx, es...); err != nil {
		t.Fatal(err)
	}
	run("BEGIN")
	run(s.pg.SQL["Narrow"])
	if plan := explain(); strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Sort") {
		t.Error(plan)
	}
	run("ROLLBACK; SET enable_sort = on; DEALLOCATE ALL")
}

// TestManyBusy checks that a batch waits only for rivals with one of its messages, keys or entities, and
// times out.
func TestManyBusy(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := context.Background()
	s := b.store(t)
	mark := func(key string) store.Mark {
		m := aMark()
		m.KeyOrder, m.Key = store.Arriving, []byte(key)
		return m
	}
	u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{mark("k")},
		Locks: []store.Lock{{Space: "order", Key: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]store.Intake{
		"a key": {Marks: []store.Mark{mark("l"), mark("k")}},
		"an entity": {Marks: []store.Mark{mark("l"), mark("m")},
			Locks: []store.Lock{{Space: "order", Key: "b"}, {Space: "order", Key: "a"}}},
	} {
		in.Wait = 50 * time.Millisecond
		if _, err := s.Begin(ctx, in); err == nil || !s.Outage(err) {
			t.Errorf("%s in hand: %v", name, err)
		}
	}
	if _, err := u.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
}
