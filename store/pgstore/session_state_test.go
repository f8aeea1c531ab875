package pgstore

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/skald-go/skald/store"
)

// These queries return state of a session.
const (
	leftZone  = "SELECT current_setting('TimeZone')"
	leftTable = "SELECT count(*)::text FROM pg_class WHERE relnamespace = pg_my_temp_schema()"
	leftHold  = "SELECT count(*)::text FROM pg_cursors WHERE is_holdable"
)

// TestSessionStateOfAHandlerSQL checks that state which a handler leaves in its session does not reach the
// next user of the pool.
func TestSessionStateOfAHandlerSQL(t *testing.T) {
	b := newBed(t)
	ctx := t.Context()
	for left, query := range map[string]string{
		"SET TimeZone = 'Asia/Tokyo'":                        leftZone,
		"CREATE TEMP TABLE mine (id int)":                    leftTable,
		"CREATE TEMP TABLE mine (id int) ON COMMIT DROP":     leftTable,
		"SET LOCAL TimeZone = 'Asia/Tokyo'":                  leftZone,
		"DECLARE mine CURSOR WITH HOLD FOR SELECT 1":         leftHold,
		"SELECT set_config('TimeZone', 'Asia/Tokyo', false)": leftZone,
		"DO $$BEGIN CREATE TEMP SEQUENCE mine; END$$":        leftTable,
		"CREATE FUNCTION pg_temp.f() RETURNS int RETURN 1":   "SELECT count(*)::text FROM pg_proc WHERE pronamespace = pg_my_temp_schema()",
		"LISTEN mine": "SELECT count(*)::text FROM pg_listening_channels()",
	} {
		db := stdlib.OpenDBFromPool(b.few(t, pgx.QueryExecModeCacheStatement, 1))
		s := NewSQL(db, &Options{Schema: b.schema})
		state := func() (pid int, value string) {
			if err := db.QueryRow("SELECT pg_backend_pid(), ("+query+")").Scan(&pid, &value); err != nil {
				t.Fatal(err)
			}
			return pid, value
		}
		pid, before := state()
		handle := func(text string) {
			u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{aMark()}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := u.Tx().ExecContext(ctx, text); err != nil {
				t.Fatal(err)
			}
			if err := u.Commit(ctx); err != nil {
				t.Fatal(err)
			}
		}
		handle(left)
		if strings.HasPrefix(left, "LISTEN") { // the commit of the next unit sees it
			handle("SELECT 1")
		}
		again, after := state()
		if after != before {
			t.Errorf("%s: the next user of the pool has %q, want %q", left, after, before)
		}
		if harmless := strings.Contains(left, "LOCAL") || strings.Contains(left, "DROP"); harmless &&
			again != pid {
			t.Errorf("%s: the connection was closed", left)
		}
		_ = db.Close()
	}
}

// TestSettingOfADatabaseFunction checks that a reported setting that a database function changes does not
// reach the next function or the next message.
func TestSettingOfADatabaseFunction(t *testing.T) {
	b := newBed(t)
	ctx := context.Background()
	b.exec(t, `CREATE FUNCTION {moves}() RETURNS text LANGUAGE sql AS $$SELECT set_config('TimeZone', 'Asia/Tokyo', false)$$`)
	pool := b.few(t, pgx.QueryExecModeCacheStatement, 1)
	s := New(pool, &Options{Schema: b.schema})
	for _, follows := range []bool{false, true} {
		u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{aMark()}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := u.Tx().Exec(ctx, b.q(`SELECT {moves}()`)); err != nil {
			t.Fatal(err)
		}
		if err := u.Usable(ctx); !errors.Is(err, store.ErrUnshared) {
			t.Errorf("the next function may use the transaction: %v", err)
		}
		var next store.Unit[pgx.Tx]
		if follows {
			next, err = u.CommitThen(ctx, store.Intake{Marks: []store.Mark{aMark()}})
		} else {
			err = u.Commit(ctx)
		}
		if err != nil || next != nil {
			t.Fatalf("the next transaction begins with the setting: %v", err)
		}
		var zone string
		if err := pool.QueryRow(ctx, leftZone).Scan(&zone); err != nil || zone == "Asia/Tokyo" {
			t.Errorf("the next user of the pool has the zone %q, %v", zone, err)
		}
	}
}

// TestPrepareOfAHandler checks that an error of a statement that a handler prepares by SQL is its own, not an
// outage, and that the statement does not reach a later message.
func TestPrepareOfAHandler(t *testing.T) {
	b := newBed(t)
	ctx := context.Background()
	pool := b.few(t, pgx.QueryExecModeCacheStatement, 1)
	s := New(pool, &Options{Schema: b.schema})
	u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{aMark()}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.Tx().Exec(ctx, "PREPARE mine AS SELECT 1"); err != nil {
		t.Fatal(err)
	}
	if _, err := u.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := pool.QueryRow(ctx, "SELECT count(*) FROM pg_prepared_statements WHERE name = 'mine'").Scan(
		&left); err != nil || left != 0 {
		t.Errorf("%d statements are left, %v", left, err)
	}

	for _, text := range []string{"PREPARE mine AS SELECT 1; PREPARE mine AS SELECT 1", "EXECUTE unknown"} {
		for range 2 { // the second meets what the first left
			u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{aMark()}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err = u.Tx().Exec(ctx, text); err == nil || u.Outage(ctx, err) {
				t.Errorf("%s on pgx is an outage: %v", text, err)
			}
			if _, err := u.Rollback(ctx); err != nil {
				t.Error(err)
			}
		}
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	over := NewSQL(db, &Options{Schema: b.schema})
	for n := range 3 { // the second meets the statement of the first, the third does not
		u, err := over.Begin(ctx, store.Intake{Marks: []store.Mark{aMark()}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = u.Tx().ExecContext(ctx, "PREPARE mine AS SELECT 1")
		if (err != nil) != (n == 1) || err != nil && u.Outage(ctx, err) {
			t.Errorf("PREPARE %d over database/sql is an outage: %v", n, err)
		}
		if _, err := u.Rollback(ctx); err != nil {
			t.Error(err)
		}
	}
}
