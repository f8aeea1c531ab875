// This file builds the SQL statements for a Table, and checks the Table against the database.

package foreign

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/internal/sqlfile"
	"github.com/skald-go/skald/store"
)

// statements has the statements of sql/table.sql for one table.
type statements struct {
	peek, bound, begin, page, payloads, mark string

	bytes bool // the payload is a bytea
	exact bool // the size of a payload is known before it is read
}

// shape describes the table in the database.
type shape struct {
	oid                    int64
	kind                   string
	columns                map[string]columnShape
	order                  []string // names of the columns, in order
	read, update, removing bool     // rights of the relay's user
}

type columnShape struct {
	kind            string
	counts, notNull bool
}

// look reads the shape of the table, or returns an error if the table cannot be used.
func look(ctx context.Context, db *sql.DB, t *Table) (*shape, error) {
	text, err := sqlfile.Load(files, "sql", "")
	if err != nil {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, text["Columns"], t.quoted())
	if err != nil && isOtherDatabase(ctx, db, text, err) {
		return nil, t.wrong("its database is not PostgreSQL",
			"only tables in PostgreSQL are supported; from SQLite or another database, "+
				"let writers insert into skald_outbox (docs/adopt.md)")
	}
	if err != nil {
		return nil, fmt.Errorf("read the table %s: %w", t.Name, err)
	}
	defer rows.Close()
	s := &shape{columns: map[string]columnShape{}}
	for rows.Next() {
		var name string
		var c columnShape
		if err := rows.Scan(&s.oid, &s.kind, &name, &c.kind, &c.counts, &s.read, &s.update, &s.removing,
			&c.notNull); err != nil {
			return nil, fmt.Errorf("read the table %s: %w", t.Name, err)
		}
		if name != "" {
			s.columns[name], s.order = c, append(s.order, name)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the table %s: %w", t.Name, err)
	}
	switch {
	case s.oid == 0:
		return nil, t.wrong("it does not exist",
			"check its schema and name: a name that was created without quotes has lower-case letters, and a part with a dot needs double quotes")
	case s.kind != "r" && s.kind != "p":
		return nil, t.wrong("it is not a table", "name the table itself, not a view or a foreign table")
	}
	return s, nil
}

// isOtherDatabase returns true if the database answers but is not PostgreSQL.
func isOtherDatabase(ctx context.Context, db *sql.DB, text map[string]string, why error) bool {
	var version, one string
	return sqlState(why) == "" && db.QueryRowContext(ctx, text["Version"]).Scan(&version) != nil &&
		db.QueryRowContext(ctx, text["Answers"]).Scan(&one) == nil
}

func (t *Table) quoted() string {
	parts := t.nameParts()
	for i := range parts {
		parts[i] = quoted(parts[i])
	}
	return strings.Join(parts, ".")
}

// checkShape returns an error if t does not match the table with the shape s.
func (t *Table) checkShape(s *shape) error {
	for _, name := range t.columns() {
		if _, ok := s.columns[name]; !ok {
			return t.wrong(fmt.Sprintf("it has no column %q", name), "its columns are "+
				strings.Join(s.order, ", "))
		}
	}
	for _, text := range t.templates() {
		parts, _ := parseTemplate(text)
		for _, p := range parts {
			if s.columns[p.column].kind == "bytea" {
				return t.wrong(fmt.Sprintf("column %q is a bytea", p.column),
					"only the payload may be a bytea: a template is text")
			}
		}
	}
	if kind := s.columns[t.HeadersIn].kind; t.HeadersIn != "" && kind != "json" && kind != "jsonb" {
		return t.wrong(fmt.Sprintf("column %q is neither json nor jsonb", t.HeadersIn),
			`headers_in is an object of names and texts`)
	}
	if t.Time != "" && !timestamp(s.columns[t.Time].kind) {
		return t.wrong(fmt.Sprintf("column %q is not a timestamp", t.Time),
			"omit time, or name a timestamp")
	}
	kind, column := s.columns[t.Done.Column].kind, t.Done.Column
	if column != "" && (t.Done.Sent != "") == (timestamp(kind) || kind == "boolean") {
		return t.wrong(fmt.Sprintf("done by column %q, which is a %s", column, kind),
			"a timestamp or a boolean needs no values; anything else needs pending and sent")
	}
	return t.allowed(s)
}

// allowed returns an error if a right that a page needs is missing.
func (t *Table) allowed(s *shape) error {
	missing := ""
	switch {
	case !s.read:
		missing = "SELECT"
	case !s.update: // needed even with Done.Delete, to lock rows
		missing = "UPDATE"
	case t.Done.Delete && !s.removing:
		missing = "DELETE"
	}
	if missing == "" {
		return nil
	}
	return &store.RightError{What: missing + " on " + t.Name, Remedy: "GRANT " + missing + " ON " +
		t.quoted() + " TO the relay's user",
		Err: errors.New("the database has not granted it")}
}

func timestamp(kind string) bool { return kind == "date" || strings.HasPrefix(kind, "timestamp") }

// columns returns all columns that t uses, without duplicates.
func (t *Table) columns() []string {
	all := map[string]bool{t.Payload: true}
	for _, name := range append([]string{t.Time, t.HeadersIn, t.Done.Column}, t.Order...) {
		all[name] = true
	}
	for _, text := range t.templates() {
		parts, _ := parseTemplate(text)
		for _, p := range parts {
			all[p.column] = true
		}
	}
	delete(all, "")
	return slices.Sorted(maps.Keys(all))
}

// compile returns the statements for t. t must match s.
func compile(t *Table, s *shape, idle time.Duration) (*statements, error) {
	files, err := sqlfile.Load(files, "sql", "")
	if err != nil {
		return nil, err
	}
	pending, done := t.doneSQL(s.columns[t.Done.Column].kind)
	where := "true"
	if t.Where != "" {
		where = t.Where + "\n" // the line break ends a comment
	}
	expr := func(s string, most int) string {
		parts, _ := parseTemplate(s) // valid, because check was called
		return parts.sql(most)
	}
	var order, named, outer []string
	for i, name := range append(slices.Clone(t.Order), t.counting(s)...) {
		order = append(order, column(name))
		named = append(named, fmt.Sprintf(", %s AS o%d", column(name), i))
		outer = append(outer, fmt.Sprintf("o%d", i))
	}
	headers := make([]string, 0, len(t.Headers))
	for _, name := range t.headerNames() {
		headers = append(headers, expr(t.Headers[name], complete.MaxHeaders+1))
	}
	out := &statements{}
	at := "NULL::bigint"
	payload, size, stored, text := out.payload(t, s.columns[t.Payload].kind)
	if t.Time != "" {
		at = fmt.Sprintf("CASE WHEN %s BETWEEN '0001-01-01' AND '9999-12-31' THEN (extract(epoch FROM %[1]s) * 1000000)::bigint END", column(t.Time))
	}
	headersIn := "NULL::text"
	if t.HeadersIn != "" {
		headersIn = column(t.HeadersIn) + "::text"
	}
	claim, page := "true", "Page"
	if !t.rows() {
		claim, page = fmt.Sprintf("pg_try_advisory_xact_lock(hashtextextended('skald relay of table %d', 0))",
			s.oid), "OrderedPage"
	}
	fill := strings.NewReplacer("/*table*/", t.quoted(), "/*pending*/", pending, "/*where*/", where,
		"/*done*/", done,
		"/*id*/", expr(t.ID, complete.MaxText+1), "/*topic*/", expr(t.Topic, complete.MaxTopic+1), "/*key*/",
		expr(t.Key, complete.MaxKey+1),
		"/*type*/", expr(t.Type, complete.MaxType+1), "/*correlation*/",
		expr(t.Correlation, complete.MaxText+1), "/*trace*/", expr(t.Trace, complete.MaxText+1),
		"/*payload*/", payload, "/*size*/", size, "/*stored*/", stored, "/*text*/", text, "/*time*/", at,
		"/*headersin*/", headersIn, "/*headers*/", "json_build_array("+strings.Join(headers, ", ")+")::text",
		"/*order*/", strings.Join(order, ", "), "/*ordercolumns*/", strings.Join(named, ""), "/*orderpage*/",
		strings.Join(outer, ", "),
		"/*most*/", fmt.Sprint(complete.MaxData), "/*budget*/", fmt.Sprint(store.PageBytes),
		"/*claim*/", claim,
		"/*idle*/", fmt.Sprintf("%dms", (idle+time.Millisecond-1).Milliseconds()))
	out.peek, out.begin, out.page = fill.Replace(files["Peek"]), fill.Replace(files["Begin"]),
		fill.Replace(files[page])
	out.bound, out.payloads = fill.Replace(files["Bound"]), fill.Replace(files["Payloads"])
	if out.mark = fill.Replace(files["Mark"]); t.Done.Delete {
		out.mark = fill.Replace(files["Delete"])
	}
	return out, nil
}

// counting returns the identity or serial column that orders rows that are equal in Table.Order, if there is
// one. Without it the statement uses the order of insertion (cmin). That is less reliable, because an UPDATE
// that was rolled back overwrites cmin.
func (t *Table) counting(s *shape) []string {
	for _, name := range s.order {
		if s.columns[name].counts {
			return []string{name}
		}
	}
	return nil
}

// payload returns SQL expressions for the payload, its size, its stored size, and a join that they need. For
// a text or a bytea, the database computes the size without reading the value.
func (s *statements) payload(t *Table, kind string) (payload, size, stored, from string) {
	c := column(t.Payload)
	s.bytes = kind == "bytea"
	s.exact = s.bytes || kind == "text" || strings.HasPrefix(kind, "character")
	payload, size = c, "octet_length("+c+")"
	switch {
	case s.bytes:
	case s.exact:
		payload = "convert_to(" + c + "::text, 'UTF8')"
	default:
		payload, size, stored = "convert_to(p.text, 'UTF8')", "octet_length(p.text)",
			"coalesce(pg_column_size("+c+"), 0)"
		return payload, size, stored, " CROSS JOIN LATERAL (SELECT " + c + "::text AS text OFFSET 0) AS p"
	}
	stored = fmt.Sprintf("CASE WHEN %s <= %d THEN %[1]s ELSE 0 END", size, complete.MaxData)
	return payload, size, stored, ""
}

// doneSQL returns the condition for rows that are not done, and the assignment that marks a row as done.
func (t *Table) doneSQL(kind string) (pending, set string) {
	c, d := column(t.Done.Column), t.Done
	switch {
	case d.Delete:
		return "true", ""
	case d.Sent != "":
		return c + " = " + value(d.Pending), quoted(d.Column) + " = " + value(d.Sent)
	case kind == "boolean":
		return c + " IS NOT TRUE", quoted(d.Column) + " = true"
	}
	return c + " IS NULL", quoted(d.Column) + " = clock_timestamp()"
}

// value returns a literal without a type, so that it gets the type of its column.
func value(s string) string { return strings.TrimSuffix(literal(s), "::text") }

// warnings returns pairs of a warning and a remedy for an operator.
func (t *Table) warnings(s *shape) (all [][2]string) {
	if t.rows() {
		return [][2]string{{"rows are claimed one by one: several relays do not keep the order of a key",
			`give "claim": "table", with which one relay works at a time, if order matters`}}
	}
	first := s.columns[t.Order[0]]
	switch {
	case t.Key == "":
		all = append(all, [2]string{"messages have no key: the broker keeps no order among them",
			`give "key": "${aggregate_id}", with the column of the entity`})
	case timestamp(first.kind):
		all = append(all, [2]string{"the order is by " + t.Order[0] +
			": if two transactions have one key, the one that began first is published first, even if it committed later",
			"order by a column GENERATED ALWAYS AS IDENTITY, and let writers lock the entity before they insert; without such a column, rows of one " +
				"transaction may also change their order after an UPDATE that is rolled back"})
	case !first.counts:
		all = append(all, [2]string{"the order is by " + t.Order[0] +
			", which is not an identity column: keys keep their order only if the writers ensure it",
			"order by a column that is GENERATED ALWAYS AS IDENTITY"})
	}
	return all
}
