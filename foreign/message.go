// This file builds messages from rows.

package foreign

import (
	"bytes"
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/internal/fingerprint"
)

// row is a row of a page.
type row struct {
	part, place                              string // the position of the row: tableoid and ctid
	id, topic, key, kind, correlation, trace sql.NullString
	payload                                  []byte
	bytes                                    int64 // size of the payload, even if it was not read
	at                                       sql.NullInt64
	headersIn                                sql.NullString
	headersInBytes                           int64
	headers                                  string
	message                                  skald.Message
	malformed                                string // the reason why the row has no message, or ""
}

func (r *row) scan(rows *sql.Rows) error {
	return rows.Scan(&r.part, &r.place, &r.id, &r.topic, &r.key, &r.kind, &r.at, &r.correlation,
		&r.trace, &r.headers)
}

// name returns a string that identifies the row until the row is updated.
func (r *row) name() string { return r.part + r.place }

// readableName returns a readable name of the row for logs.
func (r *row) readableName() string {
	if r.id.Valid {
		return r.id.String
	}
	return "ctid " + r.place
}

// read builds the message of a row, or sets malformed.
func (t *Table) read(r *row, binary bool) {
	m := &r.message
	*m = skald.Message{ID: r.id.String, Source: t.source(), Topic: r.topic.String, Type: r.kind.String,
		Data:        r.payload,
		ContentType: t.ContentType, CorrelationID: r.correlation.String, TraceParent: r.trace.String}
	if r.key.Valid {
		m.Key = []byte(r.key.String)
	}
	if !r.kind.Valid {
		m.Type = m.Topic
	}
	if m.ContentType == "" && !binary {
		m.ContentType = "application/json"
	}
	if r.payload != nil && len(r.payload) == 0 {
		m.Data = []byte{}
	}
	r.malformed = t.fault(r)
}

func (t *Table) fault(r *row) string {
	m := &r.message
	switch {
	case !r.id.Valid || m.ID == "":
		return "it has no id"
	case len(m.ID) > complete.MaxText || !oneLine(m.ID):
		return fmt.Sprintf("its id is not one line of at most %d bytes", complete.MaxText)
	case !r.topic.Valid:
		return "it has no topic"
	case r.bytes > complete.MaxData:
		return fmt.Sprintf("its payload has %d bytes, at most %d are allowed: send a reference instead",
			r.bytes, complete.MaxData)
	case r.headersInBytes > 0 && !r.headersIn.Valid:
		return fmt.Sprintf("its headers are %d bytes, and were not read", r.headersInBytes)
	}
	// Ignore an invalid time or trace, because these fields are only for operators.
	if at := time.UnixMicro(r.at.Int64).UTC(); r.at.Valid && at.Year() >= 1 && at.Year() <= 9999 {
		m.Time = at
	}
	for _, text := range []*string{&m.CorrelationID, &m.TraceParent} {
		if len(*text) > complete.MaxText || !oneLine(*text) {
			*text = ""
		}
	}
	if err := t.readHeaders(r); err != nil {
		return err.Error()
	}
	if err := complete.Limits(m); err != nil {
		return err.Error()
	}
	return ""
}

func oneLine(s string) bool { return utf8.ValidString(s) && !strings.ContainsAny(s, "\x00\r\n") }

// readHeaders adds the headers in the column HeadersIn, sorted by name, and then those of Table.Headers.
func (t *Table) readHeaders(r *row) error {
	if r.headersIn.Valid {
		var object map[string]any
		d := json.NewDecoder(strings.NewReader(r.headersIn.String))
		d.UseNumber()
		if err := cmp.Or(fingerprint.CheckJSON([]byte(r.headersIn.String)), d.Decode(&object)); err != nil {
			return fmt.Errorf("its headers are no JSON object: %w", err)
		}
		for _, name := range slices.Sorted(maps.Keys(object)) {
			value, err := headerText(object[name])
			if err != nil {
				return fmt.Errorf("its header %q: %w", name, err)
			}
			r.message.Headers = append(r.message.Headers, skald.Header{Name: name, Value: value})
		}
	}
	var own []*string
	if err := json.Unmarshal([]byte(r.headers), &own); err != nil {
		return fmt.Errorf("read headers: %w", err)
	}
	for i, name := range t.headerNames() {
		if i < len(own) && own[i] != nil {
			r.message.Headers = append(r.message.Headers, skald.Header{Name: name, Value: []byte(*own[i])})
		}
	}
	return nil
}

// headerText returns the value of a header: a string unchanged, and any other value as JSON.
func headerText(v any) ([]byte, error) {
	if s, ok := v.(string); ok {
		return []byte(s), nil
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(out.Bytes()), nil
}
