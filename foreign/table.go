package foreign

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/complete"
)

// Table maps the columns of an existing outbox table to messages. Some fields are templates: "${name}" stands
// for the text of that column, as in "${aggregate_type}.events.created". If one of the columns is NULL, the
// whole template is NULL.
type Table struct {
	// Name is the name of the table, such as "outbox" or "schema.outbox". A part that contains a dot must be
	// in double quotes, as in SQL.
	Name string `json:"table"`

	ID string `json:"id"` // a template for the message ID; a row with NULL cannot be published
	// Source is the source of the messages. It is not a template. Source and ID are the identity of a
	// message, so do not change Source. Default "/" and the name of the table.
	Source string `json:"source,omitempty"`
	Topic  string `json:"topic"`          // a template
	Key    string `json:"key,omitempty"`  // a template; messages with NULL have no order
	Type   string `json:"type,omitempty"` // a template. Default: the type is the topic

	// Payload is the column with the data. The relay publishes a bytea unchanged, and other types as text.
	// NULL becomes a message without data (a tombstone).
	Payload     string `json:"payload"`
	ContentType string `json:"content_type,omitempty"` // default "application/json"; none for a bytea

	// Time is the column with the time of the message, a timestamp or timestamptz. It does not affect the
	// order.
	Time        string `json:"time,omitempty"`
	Correlation string `json:"correlation,omitempty"` // a template
	Trace       string `json:"trace,omitempty"`       // a template for the W3C traceparent

	// HeadersIn is a json or jsonb column with an object of header names and values. Headers has additional
	// headers: names and templates.
	HeadersIn string            `json:"headers_in,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`

	// Order has the columns that define the order of publication. Rows of one transaction with equal values
	// are published in the order of insertion.
	Order []string `json:"order"`
	Where string   `json:"where,omitempty"` // an additional SQL condition, such as "tenant = 'x'"
	Done  Done     `json:"done"`

	// Claim selects how several relays share the table. With ClaimTable, the default, one relay works at a
	// time, and the messages of a key keep their order. With ClaimRows all relays work at the same time,
	// without order.
	Claim string `json:"claim,omitempty"`
}

// Values of Table.Claim.
const (
	ClaimTable = "table"
	ClaimRows  = "rows"
)

// Done describes how a published row is marked: the relay deletes the row, or changes a column.
type Done struct {
	Delete bool `json:"delete,omitempty"`
	// Column is the column that marks a published row. A timestamp is NULL before, and gets the current time.
	// A boolean is NULL or false before, and gets true. Any other column has the value Pending before, and
	// gets the value Sent.
	Column  string `json:"column,omitempty"`
	Pending string `json:"pending,omitempty"`
	Sent    string `json:"sent,omitempty"`
}

// TableError reports that a Table is invalid, or does not match the database.
type TableError struct{ Table, What, Remedy string }

func (e *TableError) Error() string {
	name := e.Table
	if name == "" {
		name = "(without a name)"
	}
	return "the table " + name + ": " + e.What + ": " + e.Remedy
}

// Read decodes a Table from JSON. It checks everything that needs no database.
func Read(from io.Reader) (Table, error) {
	var t Table
	d := json.NewDecoder(from)
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return t, fmt.Errorf("read the table's columns: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return t, errors.New("read the table's columns: the file has text after the JSON object")
	}
	return t, t.check()
}

func (t *Table) wrong(what, remedy string) error {
	return &TableError{Table: t.Name, What: what, Remedy: remedy}
}

// check checks everything that needs no database.
func (t *Table) check() error {
	switch {
	case len(t.nameParts()) == 0:
		return t.wrong("no table is named",
			`give "table": "outbox", or "schema.outbox"; a part with a dot needs double quotes`)
	case t.ID == "":
		return t.wrong("the id of messages is missing",
			`give "id": "${id}", with the column that identifies a row`)
	case t.Topic == "":
		return t.wrong("the topic of messages is missing",
			`give "topic": "orders", or "${topic}" with the column that holds it`)
	case t.Payload == "":
		return t.wrong("the payload of messages is missing", `give "payload", the column's name`)
	case len(t.Order) == 0:
		return t.wrong("the order of rows is missing", `give "order": ["id"]`)
	case t.Claim != "" && t.Claim != ClaimTable && t.Claim != ClaimRows:
		return t.wrong(fmt.Sprintf("claim %q", t.Claim),
			`it is "table", which keeps the order of keys, or "rows", which does not`)
	}
	if err := t.Done.check(t); err != nil {
		return err
	}
	for _, text := range t.templates() {
		if _, err := parseTemplate(text); err != nil {
			return t.wrong(err.Error(), `a template is text and "${column}"`)
		}
	}
	for _, name := range t.headerNames() {
		if name == "" {
			return t.wrong("a header has no name", "name it, or omit it")
		}
		probe := skald.Message{ID: "i", Source: "s", Topic: "t", Type: "t",
			Headers: []skald.Header{{Name: name}}}
		if err := complete.Limits(&probe); err != nil {
			return t.wrong("its headers are invalid: "+err.Error(), "rename the header")
		}
	}
	if slices.Contains(t.Order, "") {
		return t.wrong("a column of the order has no name", `give "order": ["id"]`)
	}
	if topic, _ := parseTemplate(t.Topic); len(topic) == 1 && topic[0].column == "" &&
		!complete.Topic(t.Topic) {
		return t.wrong(fmt.Sprintf("%q is not a valid topic", t.Topic),
			`give "topic": "orders", or "${topic}" with the column that holds it`)
	}
	return nil
}

func (d *Done) check(t *Table) error {
	switch {
	case d.Delete == (d.Column != ""):
		return t.wrong("done needs either delete or a column",
			`give "done": {"column": "processed_at"}, or "done": {"delete": true}; a table without such a column needs a new one, published_at timestamptz`)
	case (d.Pending != "" || d.Sent != "") && (d.Column == "" || d.Pending == d.Sent):
		return t.wrong("pending and sent are equal, or belong to no column",
			`give two values of the column, as in "pending": "NEW", "sent": "SENT"`)
	}
	return nil
}

// templates returns all templates of t.
func (t *Table) templates() []string {
	all := []string{t.ID, t.Topic, t.Key, t.Type, t.Correlation, t.Trace}
	for _, name := range t.headerNames() {
		all = append(all, t.Headers[name])
	}
	return all
}

// headerNames returns the names of Headers, sorted.
func (t *Table) headerNames() []string {
	names := make([]string, 0, len(t.Headers))
	for name := range t.Headers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (t *Table) rows() bool { return t.Claim == ClaimRows }

func (t *Table) source() string {
	if t.Source != "" {
		return t.Source
	}
	return "/" + t.plain()
}

// plain returns the name without quotes.
func (t *Table) plain() string { return strings.Join(t.nameParts(), ".") }

// nameParts returns the schema, if it is given, and the name of the table. It returns nil if the name is
// invalid.
func (t *Table) nameParts() (out []string) {
	for rest, more := t.Name, true; more; {
		var part string
		if strings.HasPrefix(rest, `"`) {
			end := closing(rest)
			if end < 0 || end+1 < len(rest) && rest[end+1] != '.' {
				return nil
			}
			part, rest = strings.ReplaceAll(rest[1:end], `""`, `"`), rest[end+1:]
			rest, more = strings.CutPrefix(rest, ".")
		} else {
			part, rest, more = strings.Cut(rest, ".")
		}
		if out = append(out, part); part == "" || len(out) > 2 {
			return nil
		}
	}
	return out
}

// closing returns the index of the closing quote of the quoted name at the beginning of s, or -1.
func closing(s string) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] != '"':
		case i+1 < len(s) && s[i+1] == '"':
			i++
		default:
			return i
		}
	}
	return -1
}
