package foreign_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/foreign"
	"github.com/skald-go/skald/store"
)

// A map that says too little, or two things, is refused with what to write instead.
func TestRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{}`:                            "no table is named",
		`{"table": "a.b.c"}`:            "no table is named",
		`{"table": "a."}`:               "no table is named",
		`{"table": "\"a"}`:              "no table is named",
		`{"table": "\"a\"b"}`:           "no table is named",
		`{"table": "\"\""}`:             "no table is named",
		`{"table": "\"a.b\".c"}`:        "the id of messages",
		`{"table": "a", "id": 1}`:       "string",
		`{"tabel": "a"}`:                "tabel",
		`{"table": "a"} x`:              "after the JSON",
		`{"table": "a"}`:                "the id of messages",
		`{"table": "a", "id": "${id}"}`: "the topic of messages",
		`{"table": "a", "id": "${id}", "topic": "t"}`:                                                                                     "the payload of messages",
		`{"table": "a", "id": "${id}", "topic": "t", "payload": "p"}`:                                                                     "the order of rows is missing",
		`{"table": "a", "id": "${id}", "topic": "t", "payload": "p", "order": ["id"]}`:                                                    "done needs either",
		`{"table": "a", "id": "${id}", "topic": "t", "payload": "p", "order": ["id"], "claim": "x"}`:                                      `"rows"`,
		`{"table": "a", "id": "${id}", "topic": "t", "payload": "p", "order": ["id"], "done": {"delete": true, "column": "c"}}`:           "done needs either",
		`{"table": "a", "id": "${id}", "topic": "t", "payload": "p", "order": ["id"], "done": {"column": "c", "sent": ""}}`:               "",
		`{"table": "a", "id": "${id}", "topic": "t", "payload": "p", "order": ["id"], "done": {"delete": true, "sent": "x"}}`:             "pending and sent",
		`{"table": "a", "id": "${id", "topic": "t", "payload": "p", "order": ["id"], "done": {"delete": true}}`:                           "${",
		`{"table": "a", "id": "${id}", "topic": "t", "payload": "p", "order": ["id"], "headers": {"": "x"}, "done": {"delete": true}}`:    "header",
		`{"table": "a", "id": "${id}", "topic": "t", "payload": "p", "order": ["id"], "headers": {"a b": "x"}, "done": {"delete": true}}`: `"a b" has other characters`,
		`{"table": "a", "id": "${id}", "topic": "a b", "payload": "p", "order": ["id"], "done": {"delete": true}}`:                        "not a valid topic",
		`{"table": "a", "id": "${id}", "topic": "t", "payload": "p", "order": [""], "done": {"delete": true}}`:                            "order has no name",
	} {
		_, err := foreign.Read(strings.NewReader(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A database that is no PostgreSQL ends the relay with the reason: it is not away.
func TestAnotherDatabase(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "app.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(),
		"CREATE TABLE outbox (id INTEGER PRIMARY KEY, payload TEXT)"); err != nil {
		t.Fatal(err)
	}
	table := foreign.Table{Name: "outbox", ID: "${id}", Topic: "orders", Payload: "payload",
		Order: []string{"id"}, Done: foreign.Done{Delete: true}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = foreign.New(db, table, membroker.New(nil), nil).Run(ctx)
	var wrong *foreign.TableError
	if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "is not PostgreSQL") ||
		!strings.Contains(err.Error(), "skald_outbox") {
		t.Errorf("%v", err)
	}
}

// A map that does not go with the table ends the relay with the reason, before anything is published.
func TestMapBesideTheTable(t *testing.T) {
	t.Parallel()
	b := newBed(t, counted+", raw bytea, h text, j json", "orders")
	b.do("CREATE TYPE " + b.schema + ".status AS ENUM ('new', 'sent')")
	b.do("ALTER TABLE outbox ADD COLUMN status " + b.schema +
		".status, ADD COLUMN made boolean GENERATED ALWAYS AS (n > 0) STORED")
	for want, change := range map[string]func(*foreign.Table){
		"it does not exist":        func(t *foreign.Table) { t.Name = "nowhere.outbox" },
		`it has no column "none"`:  func(t *foreign.Table) { t.Key = "${none}" },
		"its columns are n, topic": func(t *foreign.Table) { t.Order = []string{"none"} },
		`"raw" is a bytea`:         func(t *foreign.Table) { t.Key = "${raw}" },
		`"h" is neither json`:      func(t *foreign.Table) { t.HeadersIn = "h" },
		`"h" is not a timestamp`:   func(t *foreign.Table) { t.Time = "h" },
		"needs pending and sent":   func(t *foreign.Table) { t.Done = foreign.Done{Column: "h"} },
		"needs no values":          func(t *foreign.Table) { t.Done.Sent = "x" },
		"SQLSTATE 42703":           func(t *foreign.Table) { t.Where = "nosuch = 1" },
		"SQLSTATE 42601":           func(t *foreign.Table) { t.Where = "true /*" },
		"SQLSTATE 42883":           func(t *foreign.Table) { t.Order = []string{"j"} },
		"SQLSTATE 22P02": func(t *foreign.Table) {
			t.Done = foreign.Done{Column: "status", Pending: "NEW", Sent: "SENT"}
		},
		"SQLSTATE 428C9": func(t *foreign.Table) { t.Done = foreign.Done{Column: "made"} },
	} {
		table := b.table(countedMap)
		change(&table)
		err := b.relay(table, b.bus).Run(t.Context())
		var wrong *foreign.TableError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A comment ends where it stands.
func TestWhereWithAComment(t *testing.T) {
	t.Parallel()
	b := newBed(t, counted, "orders")
	table := b.table(countedMap)
	table.Where = "key = 'a' -- mine"
	b.do(`INSERT INTO outbox (key, body) VALUES ('a', '1'), ('b', '2')`)
	b.quiet(b.relay(table, b.bus))
	b.expect("orders a 1")
}

// What is published and cannot be marked is not published for ever.
func TestRowsThatCannotBeMarked(t *testing.T) {
	t.Parallel()
	for name, trigger := range map[string]string{"kept": "RETURN NULL;", "refused": "RAISE 'no';"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, counted, "orders")
			b.do("CREATE FUNCTION " + b.schema + ".keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN " +
				trigger + " END $$")
			b.do("CREATE TRIGGER keep BEFORE UPDATE ON outbox FOR EACH ROW EXECUTE FUNCTION " +
				b.schema + ".keep()")
			b.do(`INSERT INTO outbox (key, body) VALUES ('a', '1')`)
			err := b.relay(b.table(countedMap), b.bus).Run(t.Context())
			var wrong *foreign.TableError
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(),
				"could not be marked as done, 3 times") {
				t.Errorf("%v", err)
			}
			b.expect("orders a 1, orders a 1, orders a 1")
		})
	}
}

// A right that is missing is named before a row is read.
func TestRights(t *testing.T) {
	t.Parallel()
	b := newBed(t, counted, "orders")
	role := "reader_of_" + b.schema
	b.do("CREATE ROLE " + role)
	b.do("GRANT USAGE ON SCHEMA " + b.schema + " TO " + role)
	b.do("GRANT SELECT ON outbox TO " + role)
	t.Cleanup(func() { b.do("DROP OWNED BY " + role + "; DROP ROLE " + role) })
	b.db.SetMaxOpenConns(1)
	b.do("SET ROLE " + role)
	err := b.relay(b.table(countedMap), b.bus).Run(t.Context())
	b.do("RESET ROLE")
	var right *store.RightError
	if !errors.As(err, &right) || !strings.Contains(err.Error(), "UPDATE on") ||
		!strings.Contains(err.Error(), "GRANT") {
		t.Errorf("%v", err)
	}
}
