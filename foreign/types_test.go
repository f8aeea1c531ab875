package foreign_test

import (
	"fmt"
	"testing"

	"github.com/skald-go/skald/foreign"
)

// Columns are of the types that teams choose: a domain is what it is over, a char is as long as it is.
func TestTypesOfColumns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		domain, columns, insert string
		change                  func(*foreign.Table)
		want, left              string // the payload; what is not done
	}{
		"a status of char(10)": {
			columns: `status char(10) NOT NULL DEFAULT 'NEW'`,
			change: func(t *foreign.Table) {
				t.Done = foreign.Done{Column: "status", Pending: "NEW", Sent: "SENT"}
			},
			left: `status <> 'SENT'`,
		},
		"a status of bit(2)": {
			columns: `status bit(2) NOT NULL DEFAULT '10'`,
			change: func(t *foreign.Table) {
				t.Done = foreign.Done{Column: "status", Pending: "10", Sent: "11"}
			},
			left: `status <> '11'`,
		},
		"a status of smallint": {
			columns: `status smallint NOT NULL DEFAULT 0`,
			change: func(t *foreign.Table) {
				t.Done = foreign.Done{Column: "status", Pending: "0", Sent: "1"}
			},
			left: `status <> 1`,
		},
		"a payload of a domain over bytea": {
			domain: "bytea", columns: `raw DOMAIN`, insert: `UPDATE outbox SET raw = '\x0102ff'`,
			change: func(t *foreign.Table) { t.Payload = "raw" }, want: "\x01\x02\xff",
		},
		"done by a domain over a timestamp": {
			domain: "timestamptz", columns: `at DOMAIN`,
			change: func(t *foreign.Table) { t.Done = foreign.Done{Column: "at"} }, left: `at IS NULL`,
		},
		"done by a domain over a boolean": {
			domain: "boolean", columns: `sent DOMAIN`,
			change: func(t *foreign.Table) { t.Done = foreign.Done{Column: "sent"} },
			left:   `sent IS NOT TRUE`,
		},
		"headers in a domain over jsonb": {
			domain: "jsonb", columns: `h DOMAIN`, insert: `UPDATE outbox SET h = '{"a": "b"}'`,
			change: func(t *foreign.Table) { t.HeadersIn = "h" },
		},
		"done by a date": {
			columns: `day date`,
			change:  func(t *foreign.Table) { t.Done = foreign.Done{Column: "day"} }, left: `day IS NULL`,
		},
		"a time after all years": {
			columns: `at timestamptz DEFAULT '294270-01-01'`,
			change:  func(t *foreign.Table) { t.Time = "at" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, counted, "orders")
			if c.domain != "" {
				b.do(fmt.Sprintf("CREATE DOMAIN %s.over AS %s", b.schema, c.domain))
				c.columns = c.columns[:len(c.columns)-len("DOMAIN")] + b.schema + ".over"
			}
			b.do("ALTER TABLE outbox ADD COLUMN " + c.columns)
			table := b.table(countedMap)
			c.change(&table)
			b.do(`INSERT INTO outbox (key, body) VALUES ('a', '{}')`)
			if c.insert != "" {
				b.do(c.insert)
			}
			if c.want == "" {
				c.want = "{}"
			}
			if c.left == "" {
				c.left = "sent_at IS NULL"
			}
			b.quiet(b.relay(table, b.bus))
			b.expect("orders a " + c.want)
			if n := b.count("SELECT count(*) FROM outbox WHERE " + c.left); n != 0 {
				t.Errorf("%d rows are not done", n)
			}
		})
	}
}

// A key of a domain over bytea is no text either.
func TestKeyOfBytes(t *testing.T) {
	t.Parallel()
	b := newBed(t, counted, "orders")
	b.do(fmt.Sprintf("CREATE DOMAIN %s.over AS bytea", b.schema))
	b.do("ALTER TABLE outbox ADD COLUMN raw " + b.schema + ".over")
	table := b.table(countedMap)
	table.Key = "${raw}"
	if _, err := b.relay(table, b.bus).Step(t.Context()); err == nil {
		t.Error("it is taken for a text")
	}
}
