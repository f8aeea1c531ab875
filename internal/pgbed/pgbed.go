// Package pgbed has helpers for the tests of all PostgreSQL drivers. It resets tables to a saved state, which
// is faster than creating them again. It also implements the queries of storetest that bypass the driver.
package pgbed

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/internal/sqlfile"
	"github.com/skald-go/skald/store/storetest"
)

//go:embed sql
var statements embed.FS

// Conn is a connection or pool of a superuser that bypasses the driver under test.
type Conn[Tag any, Row interface{ Scan(into ...any) error }] interface {
	Exec(ctx context.Context, statement string, args ...any) (Tag, error)
	QueryRow(ctx context.Context, statement string, args ...any) Row
}

// DB is a Conn of any type.
type DB struct {
	exec func(statement string, args ...any) error
	row  func(statement string, args ...any) interface{ Scan(into ...any) error }
}

// Over returns a DB that uses the connection c.
func Over[Tag any, Row interface{ Scan(into ...any) error }](c Conn[Tag, Row]) DB {
	return DB{
		exec: func(statement string, args ...any) error {
			_, err := c.Exec(context.Background(), statement, args...)
			return err
		},
		row: func(statement string, args ...any) interface{ Scan(into ...any) error } {
			return c.QueryRow(context.Background(), statement, args...)
		},
	}
}

func (d DB) do(t testing.TB, statement string, args ...any) {
	t.Helper()
	if err := d.exec(statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// get reads the value of a single row and column.
func (d DB) get(t testing.TB, into any, statement string, args ...any) {
	t.Helper()
	if err := d.row(statement, args...).Scan(into); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func load(t testing.TB, prefix string) map[string]string {
	t.Helper()
	text, err := sqlfile.Load(statements, "sql", prefix)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Tables implements storetest.Database, except transactions, for the tables of one schema and a table kv of
// the user.
type Tables struct {
	db   DB
	text map[string]string
	Made *Made // the saved state, with kv
}

// New returns the Tables of a schema and saves their current state. The schema must have the table kv (key
// text PRIMARY KEY, value text).
func New(t testing.TB, db DB, schema string) *Tables {
	t.Helper()
	b := &Tables{db: db, text: load(t, `"`+strings.ReplaceAll(schema, `"`, `""`)+`".`)}
	b.Made = Keep(t, db, schema)
	return b
}

// Get reads the committed value of a row of kv.
func (b *Tables) Get(t testing.TB, key string) (string, bool) {
	t.Helper()
	var vs []string
	b.db.get(t, &vs, b.text["GetUsers"], key)
	return strings.Join(vs, ","), len(vs) > 0
}

// Count counts committed rows.
func (b *Tables) Count(t testing.TB) (c storetest.Counts) {
	t.Helper()
	for name, into := range map[string]*int{"CountRows": &c.Rows, "CountMarks": &c.Marks,
		"CountAside": &c.Aside, "CountAudits": &c.Audits} {
		b.db.get(t, into, b.text[name])
	}
	return c
}

// Age moves the times of all rows back by d.
func (b *Tables) Age(t testing.TB, d time.Duration) {
	t.Helper()
	for _, name := range []string{"AgeRows", "AgeMarks", "AgeSteps", "AgeQuarantine", "AgeTypes",
		"AgeConsumers", "AgeSagas"} {
		b.db.do(t, b.text[name], d.Seconds())
	}
}

// Made is a saved state of tables and sequences.
type Made struct {
	db  DB
	SQL string // one statement that restores the state
}

// Keep saves the current state of all tables and sequences in the schemas.
func Keep(t testing.TB, db DB, schemas ...string) *Made {
	t.Helper()
	text := load(t, "")
	var oids []int64
	db.get(t, &oids, text["Schemas"], schemas)
	if len(oids) != len(schemas) {
		t.Fatalf("of the schemas %q only %d exist", schemas, len(oids))
	}
	var tables []string
	db.get(t, &tables, text["Filled"], oids)
	rows := map[string]json.RawMessage{}
	for _, table := range tables {
		var all *string
		if db.get(t, &all, "SELECT json_agg(t)::text FROM "+table+" AS t"); all != nil {
			rows[table] = json.RawMessage(*all)
		}
	}
	kept, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	var sequences string
	db.get(t, &sequences, text["Sequences"], oids)
	in := strings.Trim(strings.ReplaceAll(fmt.Sprint(oids), " ", ","), "[]")
	return &Made{db, strings.NewReplacer("/*rows*/", literal(string(kept)), "/*sequences*/",
		literal(sequences), "/*schemas*/", "'{"+in+"}'").Replace(text["MakeAnew"])}
}

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Anew restores the saved state.
func (m *Made) Anew(t testing.TB) {
	t.Helper()
	m.db.do(t, m.SQL)
}
