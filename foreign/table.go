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

// A Table is an outbox table as another team has it. Its texts are templates: "${name}" stands for the text
// of that column, all else for itself, as in "${aggregate_type}.events.created". Where one of its columns is
// NULL, a template is nothing.
type Table struct {
	// "outbox", or "schema.outbox"; a part that has a dot itself in double quotes, as in SQL
	Name string `json:"table"`

	ID string `json:"id"` // a template: the message's id; NULL is a malformed row
	// a text, with ID the identity for ever. Default "/" and the table's name
	Source string `json:"source,omitempty"`
	Topic  string `json:"topic"`          // a template
	Key    string `json:"key,omitempty"`  // a template; nothing promises no order
	Type   string `json:"type,omitempty"` // a template. Default: the type is the topic

	// a column: bytea is taken as it is, anything else as text. NULL is a tombstone
	Payload     string `json:"payload"`
	ContentType string `json:"content_type,omitempty"` // a text. Default "application/json"; of a bytea none

	// a column, timestamp or timestamptz; never used for order
	Time        string `json:"time,omitempty"`
	Correlation string `json:"correlation,omitempty"` // a template
	Trace       string `json:"trace,omitempty"`       // a template: W3C traceparent

	// HeadersIn is a json or jsonb column: an object of names and texts. Headers are further ones, each a
	// template: the names that the team's consumers know, on any broker.
	HeadersIn string            `json:"headers_in,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`

	// Order are the columns by which rows are published. Rows that are equal in them follow as they were
	// inserted in their transaction.
	Order []string `json:"order"`
	Where string   `json:"where,omitempty"` // SQL, beside the row's not being done: "tenant = 'x'"
	Done  Done     `json:"done"`

	// Claim is how several relays share the table. By ClaimTable, the default, one at a time has it and keys
	// keep their order; by ClaimRows all take rows, which others skip, and no order is kept.
	Claim string `json:"claim,omitempty"`
}

// How several relays share a table.
const (
	ClaimTable = "table"
	ClaimRows  = "rows"
)

// Done is how a row is known to be published: it is gone, or its column says so.
type Done struct {
	Delete bool `json:"delete,omitempty"`
	// Column of a timestamp is NULL until then; of a boolean, NULL or false; of anything else it is Pending,
	// and becomes Sent.
	Column  string `json:"column,omitempty"`
	Pending string `json:"pending,omitempty"`
	Sent    string `json:"sent,omitempty"`
}

// A TableError says what is wrong with a Table, by itself or beside the database.
type TableError struct{ Table, What, Remedy string }

func (e *TableError) Error() string {
	name := e.Table
	if name == "" {
		name = "(without a name)"
	}
	return "the table " + name + ": " + e.What + ": " + e.Remedy
}

// Read reads a Table as JSON, and checks what can be checked without the database.
func Read(from io.Reader) (Table, error) {
	var t Table
	d := json.NewDecoder(from)
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return t, fmt.Errorf("read the table's columns: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return t, errors.New("read the table's columns: something follows the JSON object")
	}
	return t, t.check()
}

func (t *Table) wrong(what, remedy string) error {
	return &TableError{Table: t.Name, What: what, Remedy: remedy}
}

// check looks at everything that needs no database.
func (t *Table) check() error {
	switch {
	case len(t.parts()) == 0:
		return t.wrong("no table is named",
			`give "table": "outbox", or "schema.outbox"; a part that has a dot itself stands in double quotes`)
	case t.ID == "":
		return t.wrong("nothing says which id a message has",
			`give "id": "${id}", with the column that identifies a row`)
	case t.Topic == "":
		return t.wrong("nothing says where messages go",
			`give "topic": "orders", or "${topic}" with the column that holds it`)
	case t.Payload == "":
		return t.wrong("nothing says what a message holds", `give "payload", the column's name`)
	case len(t.Order) == 0:
		return t.wrong("nothing says in which order rows are published", `give "order": ["id"]`)
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
			return t.wrong("a header has no name", "give it one, or leave it out")
		}
		probe := skald.Message{ID: "i", Source: "s", Topic: "t", Type: "t",
			Headers: []skald.Header{{Name: name}}}
		if err := complete.Limits(&probe); err != nil {
			return t.wrong("no message can have its headers: "+err.Error(), "call the header otherwise")
		}
	}
	if slices.Contains(t.Order, "") {
		return t.wrong("a column of the order has no name", `give "order": ["id"]`)
	}
	if topic, _ := parseTemplate(t.Topic); len(topic) == 1 && topic[0].column == "" &&
		!complete.Topic(t.Topic) {
		return t.wrong(fmt.Sprintf("%q is no name of a topic", t.Topic),
			`give "topic": "orders", or "${topic}" with the column that holds it`)
	}
	return nil
}

func (d *Done) check(t *Table) error {
	switch {
	case d.Delete == (d.Column != ""):
		return t.wrong("done is not said in one way",
			`give "done": {"column": "processed_at"}, or "done": {"delete": true}; a table with neither needs a column more, published_at timestamptz`)
	case (d.Pending != "" || d.Sent != "") && (d.Column == "" || d.Pending == d.Sent):
		return t.wrong("pending and sent do not tell rows apart",
			`give two values of the column, as in "pending": "NEW", "sent": "SENT"`)
	}
	return nil
}

// templates are all of t.
func (t *Table) templates() []string {
	all := []string{t.ID, t.Topic, t.Key, t.Type, t.Correlation, t.Trace}
	for _, name := range t.headerNames() {
		all = append(all, t.Headers[name])
	}
	return all
}

// headerNames are those of Headers, always in the same order.
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

// plain is the name as people say it.
func (t *Table) plain() string { return strings.Join(t.parts(), ".") }

// parts are the table's name, and before it that of its schema, if it is given. None: it is no name.
func (t *Table) parts() (out []string) {
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

// closing is where the name in double quotes ends that s begins with; less than 0: nowhere.
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
