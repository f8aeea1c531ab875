package foreign_test

import (
	"fmt"
	"strings"
	"testing"
)

// oddBed has a column of a type that the database converts to text with a function. A sequence counts the
// calls of this function. For the value "bad" the function fails, as the database does for a value that it
// cannot read.
func oddBed(t *testing.T) *bed {
	b := newBed(t, counted, "orders")
	in := func(s string) { b.do(strings.ReplaceAll(s, "SCHEMA", b.schema)) }
	in("CREATE TYPE SCHEMA.odd AS (v text)")
	in("CREATE SEQUENCE SCHEMA.calls")
	in(`CREATE FUNCTION SCHEMA.read(o SCHEMA.odd) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
		PERFORM nextval('SCHEMA.calls');
		IF (o).v = 'bad' THEN RAISE 'invalid byte sequence' USING ERRCODE = '22021'; END IF;
		RETURN repeat((o).v, 300000);
	END $$`)
	in("CREATE CAST (SCHEMA.odd AS text) WITH FUNCTION SCHEMA.read(SCHEMA.odd)")
	in("ALTER TABLE outbox ADD COLUMN odd SCHEMA.odd")
	return b
}

// Of a page no more payloads are read than it can hold.
func TestPayloadsOfAPage(t *testing.T) {
	t.Parallel()
	b := oddBed(t)
	b.do(
		fmt.Sprintf(
			`INSERT INTO outbox (key, odd) SELECT i, row('x')::%s.odd FROM generate_series(1, 200) AS i`,
			b.schema))
	table := b.table(countedMap)
	table.Payload = "odd"
	r := b.relay(table, b.bus)
	if _, err := r.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	calls, came := b.count("SELECT last_value FROM "+b.schema+".calls"), b.came()
	if calls > 50 || len(came) == 0 || len(came[0].Data) != 300000 {
		t.Errorf("%d payloads were read for a page of which %d rows were published", calls, len(came))
	}
	b.quiet(r)
	if n := len(came) + len(b.came()); n != 200 {
		t.Errorf("%d of 200 rows were published", n)
	}
}

// A value that the database cannot read defers its row; its neighbours go.
func TestPayloadThatTheDatabaseCannotRead(t *testing.T) {
	t.Parallel()
	b := oddBed(t)
	b.do(
		fmt.Sprintf(`INSERT INTO outbox (key, odd) SELECT i, row(CASE i WHEN 33 THEN 'bad' ELSE 'x' END)::%s.odd FROM generate_series(1, 60) AS i`, b.schema))
	table := b.table(countedMap)
	table.Payload = "odd"
	r := b.relay(table, b.bus)
	b.quiet(r)
	if n := len(b.came()); n != 59 {
		t.Errorf("%d of 59 rows were published", n)
	}
	if h := r.Health(); !h.Ready || h.Deferred != 1 ||
		!strings.Contains(b.log.String(), "invalid byte sequence") {
		t.Errorf("health %+v\n%s", h, b.log.String())
	}
	b.do(fmt.Sprintf(`UPDATE outbox SET odd = row('x')::%s.odd WHERE key = '33'`, b.schema))
	b.now = b.now.Add(1e12)
	b.quiet(r)
	if n := len(b.came()); n != 1 {
		t.Errorf("%d of 1 row were published", n)
	}
}
