package foreign_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/skald-go/skald/foreign"
)

// A map that is made of the columns' names carries the tables of the articles without a change.
func TestSuggest(t *testing.T) {
	t.Parallel()
	for columns, c := range map[string]struct{ insert, want, note string }{
		`id UUID PRIMARY KEY DEFAULT gen_random_uuid(), topic TEXT NOT NULL, key TEXT, payload JSONB NOT NULL, created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(), published_at TIMESTAMPTZ`: {
			`INSERT INTO outbox (topic, key, payload) VALUES ('orders', '7', '{"event": "order.created"}')`,
			`{"table":"outbox","id":"${id}","source":"/outbox","topic":"${topic}","key":"${key}","payload":"payload","time":"created_at","order":["created_at"],"done":{"column":"published_at"}}`,
			"no column is GENERATED",
		},
		`id bigserial PRIMARY KEY, aggregatetype text, aggregateid text, type text, payload jsonb, headers jsonb`: {
			`INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ('orders', '7', 'created', '{"event": "order.created"}')`,
			`{"table":"outbox","id":"${id}","source":"/outbox","topic":"${aggregatetype}.events","key":"${aggregateid}","type":"${type}","payload":"payload","headers_in":"headers","order":["id"],"done":{}}`,
			"done is left empty",
		},
		`id bigserial PRIMARY KEY, "orderId" text, order_id text, data text, status text DEFAULT 'PENDING'`: {
			`INSERT INTO outbox (order_id, data) VALUES ('7', '{"event": "order.created"}')`,
			`{"table":"outbox","id":"${id}","source":"/outbox","topic":"outbox","key":"${order_id}","payload":"data","order":["id"],"done":{"column":"status","pending":"PENDING","sent":"SENT"}}`,
			"a guess",
		},
	} {
		b := newBed(t, columns, "orders", "orders.events", "outbox")
		name := b.schema + ".outbox"
		table, notes, err := foreign.Suggest(t.Context(), b.db, name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(table)
		if err != nil {
			t.Fatal(err)
		}
		flat := strings.ReplaceAll(name, ".", "_")
		if got := strings.ReplaceAll(strings.ReplaceAll(string(text), name, "outbox"), flat,
			"outbox"); got != c.want {
			t.Errorf("suggested is\n\t%s\nwant\n\t%s", got, c.want)
		}
		if !strings.Contains(strings.Join(notes, "\n"), c.note) {
			t.Errorf("notes are %q, want %q", notes, c.note)
		}
		if table.Done == (foreign.Done{}) {
			table.Done.Delete = true
		}
		table.Topic = strings.ReplaceAll(table.Topic, flat, "outbox")
		b.do(c.insert)
		b.quiet(b.relay(table, b.bus))
		if got := b.came(); len(got) != 1 || string(got[0].Key) != "7" ||
			string(got[0].Data) != `{"event": "order.created"}` {
			t.Errorf("published were %+v", got)
		}
	}
}

// What is published is never guessed to be deleted: rows that were sent long ago would all go again.
func TestSuggestDone(t *testing.T) {
	t.Parallel()
	b := newBed(t, "id bigint", "orders")
	b.do("CREATE DOMAIN " + b.schema + ".instant AS timestamptz")
	for column, want := range map[string]string{
		"is_sent boolean":                       `{"column":"is_sent"}`,
		"is_published boolean":                  `{"column":"is_published"}`,
		"processed_at " + b.schema + ".instant": `{"column":"processed_at"}`,
		"sent_on date":                          `{"column":"sent_on"}`,
		"processed_at bigint":                   `{}`,
		"published smallint":                    `{}`,
		"more text":                             `{}`,
	} {
		b.do("DROP TABLE outbox")
		b.do("CREATE TABLE outbox (id bigserial PRIMARY KEY, payload text, " + column + ")")
		table, notes, err := foreign.Suggest(t.Context(), b.db, b.schema+".outbox")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(table.Done); err != nil || string(got) != want {
			t.Errorf("%s: done is %s, want %s", column, got, want)
		}
		if want == "{}" && !strings.Contains(strings.Join(notes, "\n"), "done is left empty") {
			t.Errorf("%s: notes are %q", column, notes)
		}
	}
}

// A table whose name has a dot, quotes or a space is suggested as a map that reads it.
func TestSuggestOddNames(t *testing.T) {
	t.Parallel()
	b := newBed(t, "id bigint", "x")
	for name, topic := range map[string]string{"my.outbox": "my_outbox", `Out"box ü`: "Out_box__"} {
		quoted := b.schema + `."` + strings.ReplaceAll(name, `"`, `""`) + `"`
		b.odd("CREATE TABLE " + quoted +
			` (id bigserial PRIMARY KEY, "orderId" text, order_id text, payload text, sent_at timestamptz)`)
		b.odd("INSERT INTO " + quoted + " (order_id, payload) VALUES ('7', '{}')")
		said, _, err := foreign.Suggest(t.Context(), b.db, quoted)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text, err := json.Marshal(said)
		if err != nil {
			t.Fatal(err)
		}
		table, err := foreign.Read(strings.NewReader(string(text)))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if want := b.schema + "_" + topic; table.Topic != want || table.Source != "/"+b.schema+"."+name {
			t.Errorf("topic %q, source %q", table.Topic, table.Source)
		}
		table.Topic = "x"
		b.quiet(b.relay(table, b.bus))
		b.expect("x 7 {}")
	}
}

// Of several tables that are called an outbox none is taken.
func TestSuggestNeedsAName(t *testing.T) {
	t.Parallel()
	b := newBed(t, counted, "orders")
	b.do("CREATE TABLE outbox_of_another (id int)")
	b.odd("CREATE TABLE " + b.schema + `."a ""outbox" (id int)`)
	_, _, err := foreign.Suggest(t.Context(), b.db, "")
	if err == nil || !strings.Contains(err.Error(), "several tables have such a name") ||
		!strings.Contains(err.Error(), b.schema+".outbox") ||
		!strings.Contains(err.Error(), b.schema+`."a ""outbox"`) {
		t.Errorf("%v", err)
	}
	if _, _, err := foreign.Suggest(t.Context(), b.db, b.schema+".none"); err == nil ||
		!strings.Contains(err.Error(), "it does not exist") {
		t.Errorf("%v", err)
	}
}
