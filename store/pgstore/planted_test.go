package pgstore

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// TestWhatALoginPlantsIsNotRun checks types, functions and operators that a login creates with the names
// that Skald's functions use. None of them runs: neither with the rights of the owner, nor with those of
// another caller.
func TestWhatALoginPlantsIsNotRun(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := context.Background()
	app := b.role(t, "app")
	b.exec(t, `INSERT INTO {skald_outbox} (topic, type) VALUES ('orders', 'x')`)
	s := b.store(t)
	if _, err := store.Snapshot(ctx, s, ""); err != nil {
		t.Fatal(err)
	}
	conn, err := b.as(t, app, "plants").Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	plant := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(ctx, b.q(sql), pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	plant(`CREATE FUNCTION pg_temp.ran(as_whom name) RETURNS boolean LANGUAGE plpgsql AS $$
		BEGIN RAISE EXCEPTION 'what was planted ran as %', as_whom; END $$`)
	for _, name := range []string{"text", "bigint", "int8", "pg_snapshot", "xid8", "integer", "int4",
		"smallint", "numeric", "jsonb", "uuid", "bit", "regclass"} {
		plant(`CREATE DOMAIN pg_temp."` + name + `" AS pg_catalog.text CHECK (pg_temp.ran(current_user))`)
	}
	for _, name := range []string{"pg_inherits", "pg_class", "pg_database"} {
		plant(`CREATE TEMP VIEW ` + name + ` AS SELECT 1 / 0 AS oid, 1 / 0 AS datname, 1 / 0 AS relowner`)
	}
	plant(`SET search_path = pg_temp, pg_catalog`)
	for _, sql := range []string{`SELECT * FROM {skald_shards}`, `SELECT * FROM {skald_pending_after}(0)`,
		`SELECT {skald_oldest_after}(0::pg_catalog.int8, 0, 1023)`,
		`SELECT {skald_uuid7}()`,
		`INSERT INTO {skald_outbox} (topic, type, headers) VALUES ('orders', 'x', '[["h","YQ=="]]')`} {
		if _, err := conn.Exec(ctx, b.q(sql), pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	rows, err := b.pool.Query(ctx,
		`SELECT p.oid::regprocedure::text FROM pg_proc AS p WHERE p.pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)
		AND (p.proname <> 'skald_limits' AND NOT 'search_path=pg_catalog, pg_temp' = ANY (coalesce(p.proconfig, '{}'))
			OR p.prosecdef AND EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a WHERE a.grantee = 0))`, b.schema)
	if err != nil {
		t.Fatal(err)
	}
	if open, err := pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || len(open) > 0 {
		t.Errorf("functions without a search_path of their own, or for everybody under their owner's rights: %v, %v", open, err)
	}
}

// TestPlantedBeforeTheLimits checks the trigger on the outbox, which has no search_path of its own. Objects
// in a writer's search_path do not run and do not let a row pass.
func TestPlantedBeforeTheLimits(t *testing.T) {
	t.Parallel()
	b, ctx := newBed(t), context.Background()
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	theirs := strings.ReplaceAll(b.schema, " ", "_") + "_theirs"
	plant := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(ctx, strings.ReplaceAll(sql, "theirs", theirs),
			pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	plant(`CREATE SCHEMA theirs`)
	t.Cleanup(func() { b.exec(t, `DROP SCHEMA `+theirs+` CASCADE`) })
	for _, of := range []string{"text", "bytea"} {
		plant(`CREATE FUNCTION theirs.octet_length(` + of +
			`) RETURNS integer LANGUAGE sql AS 'SELECT 1 OPERATOR(pg_catalog./) 0'`)
	}
	plant(`CREATE DOMAIN theirs.timestamptz AS pg_catalog.text CHECK (false)`)
	for op, as := range map[string]string{"<=": "le", ">=": "ge", "<": "lt"} {
		for i, of := range []string{"integer, integer", "smallint, integer",
			"pg_catalog.timestamptz, pg_catalog.timestamptz"} {
			fn := fmt.Sprintf("theirs.%s%d", as, i)
			plant(`CREATE FUNCTION ` + fn + `(` + of +
				`) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''planted''; END'`)
			left, right, _ := strings.Cut(of, ", ")
			plant(`CREATE OPERATOR theirs.` + op + ` (FUNCTION = ` + fn + `, LEFTARG = ` + left +
				`, RIGHTARG = ` + right + `)`)
		}
	}
	plant(`SET search_path = theirs, pg_catalog`)
	defer plant(`RESET search_path`)
	insert := func(topic, values string) error {
		_, err := conn.Exec(ctx, b.q(`INSERT INTO {skald_outbox} (topic, type, data, bucket) VALUES (`+topic+
			`, 'x', '1', `+values+`)`), pgx.QueryExecModeSimpleProtocol)
		return err
	}
	for _, bucket := range []string{"5", "NULL"} {
		if err := insert(`'orders'`, bucket); err != nil {
			t.Errorf("a good row, bucket %s: %v", bucket, err)
		}
		if err := insert(`repeat('x', 250)`, bucket); err == nil || !strings.Contains(err.Error(),
			"skald_outbox_topic") {
			t.Errorf("a long topic, bucket %s: %v", bucket, err)
		}
	}
}

// TestRightsEndAtRows checks that an operator's audit has the login that the database reports, and that a
// relay can change only its own settings.
func TestRightsEndAtRows(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := context.Background()
	name := b.role(t, "app")
	app := b.storeAs(t, name)
	if _, err := app.Apply(ctx, store.Effect{Audit: &store.Audit{Author: "the owner", Reason: "w",
		Action: "drop"}}); err != nil {
		t.Fatal(err)
	}
	if got := one[string](t, b,
		`SELECT author || ' by ' || login FROM {skald_audit}`); got != "the owner by "+name {
		t.Errorf("noted as %q", got)
	}
	list, err := app.Audits(ctx, store.AuditQuery{Limit: 1})
	if err != nil || len(list) != 1 || list[0].Login != name {
		t.Errorf("read as %+v, %v", list, err)
	}
	relay := b.storeAs(t, b.role(t, "relay"))
	for sql, refused := range map[string]bool{
		`SELECT FROM {skald_setting} WHERE name = 'shard lock' FOR UPDATE`:              false,
		`UPDATE {skald_setting} SET value = 'shard 1 …' WHERE name = 'recovery reason'`: false,
		`UPDATE {skald_setting} SET value = '9' WHERE name = 'recoveries'`:              true,
		`UPDATE {skald_setting} SET value = 'x' WHERE name = 'fingerprint key'`:         true,
		`UPDATE {skald_setting} SET value = '/other' WHERE name = 'source'`:             true,
	} {
		if _, err := relay.pool.Exec(ctx, b.q(sql)); (sqlexec.SQLState(err) == "42501") != refused {
			t.Errorf("%s: %v", sql, err)
		}
	}
	for _, column := range []string{"login, author, reason, action, consumer, source, id",
		"at, author, reason, action, consumer, source, id"} {
		if _, err := app.pool.Exec(ctx, b.q(`INSERT INTO {skald_audit} (`+column+
			`) VALUES (now()::text, 'a', 'b', 'c', 'd', 'e', 'f')`)); sqlexec.SQLState(err) != "42501" &&
			sqlexec.SQLState(err) != "42804" {
			t.Errorf("%s: %v", column, err)
		}
	}
}
