// This file derives a Table from the columns of a table.

package foreign

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/internal/sqlfile"
)

// Suggest derives a Table from the names of the columns, and returns notes about guesses. If name is empty,
// it selects the only table of the database with a name like an outbox.
func Suggest(ctx context.Context, db *sql.DB, name string) (t Table, notes []string, err error) {
	if name == "" {
		if name, err = onlyOutbox(ctx, db); err != nil {
			return t, nil, err
		}
	}
	t = Table{Name: name}
	s, err := look(ctx, db, &t)
	if err != nil {
		return t, nil, err
	}
	g := guess{s: s, t: &t}
	g.message()
	g.order()
	g.guessDone()
	if whole := t; whole.Done == (Done{}) {
		whole.Done.Delete = true // only for the check, because the user must still set Done
		return t, g.notes, whole.check()
	}
	return t, g.notes, t.check()
}

// onlyOutbox returns the name of the only table that is named like an outbox.
func onlyOutbox(ctx context.Context, db *sql.DB) (string, error) {
	text, err := sqlfile.Load(files, "sql", "")
	if err != nil {
		return "", err
	}
	rows, err := db.QueryContext(ctx, text["Outboxes"])
	if err != nil {
		return "", fmt.Errorf("look for tables: %w", err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return "", fmt.Errorf("look for tables: %w", err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		return "", fmt.Errorf("look for tables: %w", err)
	}
	if len(names) == 1 {
		return names[0], nil
	}
	what := "several tables have such a name: " + strings.Join(names, ", ")
	if len(names) == 0 {
		what = "no table has such a name"
	}
	return "", &TableError{Table: "of the outbox", What: what, Remedy: "name the table"}
}

// guess fills a Table from the names of columns.
type guess struct {
	s     *shape
	t     *Table
	notes []string
}

func (g *guess) note(format string, args ...any) {
	g.notes = append(g.notes, fmt.Sprintf(format, args...))
}

// find returns the first column with one of the names for which matches returns true. It ignores case and
// underscores.
func (g *guess) find(matches func(columnShape) bool, names ...string) string {
	plain := strings.NewReplacer("_", "")
	for _, want := range names {
		for _, have := range g.s.order {
			if plain.Replace(strings.ToLower(have)) != want {
				continue
			}
			if matches == nil || matches(g.s.columns[have]) {
				return have
			}
		}
	}
	return ""
}

func placeholder(column string) string {
	if column == "" {
		return ""
	}
	return "${" + column + "}"
}

func (g *guess) message() {
	t := g.t
	t.Source = t.source()
	t.ID = placeholder(g.find(nil, "id", "eventid", "messageid", "outboxid", "uuid"))
	t.Key = placeholder(g.find(nil, "aggregateid", "key", "partitionkey", "messagekey", "entityid"))
	if t.Key == "" {
		if t.Key = placeholder(g.reference()); t.Key != "" {
			g.note("the key is %s: check that messages must keep their order by it", t.Key)
		} else {
			g.note("no column looks like a key: without a key no order is kept")
		}
	}
	t.Type = placeholder(g.find(nil, "eventtype", "type", "messagetype", "eventname", "name"))
	if t.Type == "" {
		g.note("no column looks like a type: the type is the topic")
	}
	t.Topic = placeholder(g.find(nil, "topic", "destination", "channel", "queue"))
	aggregate := g.find(nil, "aggregatetype", "aggregate")
	switch {
	case t.Topic != "":
	case aggregate != "":
		t.Topic = placeholder(aggregate) + ".events"
		g.note("the topic is %q, by the aggregate's type: check that consumers read it", t.Topic)
	default:
		t.Topic = topicOf(t.plain())
		g.note("no column looks like a topic: it is %q for all rows", t.Topic)
	}
	t.Payload = g.find(nil, "payload", "data", "body", "event", "eventdata", "message", "content", "value")
	t.Time = g.find(aTimestamp, "createdat", "occurredat", "occurredon", "timestamp", "time", "created",
		"insertedat", "createdon")
	t.HeadersIn = g.find(func(c columnShape) bool { return strings.HasPrefix(c.kind, "json") },
		"headers", "metadata")
	t.Correlation = placeholder(g.find(nil, "correlationid"))
	t.Trace = placeholder(g.find(nil, "traceparent"))
}

// topicOf returns a valid topic name that is close to name.
func topicOf(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '.' || !complete.Topic(string(r)) {
			return '_'
		}
		return r
	}, name)
}

// reference returns the first column that looks like the ID of another entity.
func (g *guess) reference() string {
	for _, name := range g.s.order {
		lower := strings.ToLower(name)
		if strings.HasSuffix(lower, "_id") && !strings.Contains(name, "}") && placeholder(name) != g.t.ID &&
			lower != "correlation_id" && lower != "causation_id" {
			return name
		}
	}
	return ""
}

func aTimestamp(c columnShape) bool { return timestamp(c.kind) }

func (g *guess) order() {
	for _, name := range g.s.order {
		if g.s.columns[name].counts {
			g.t.Order = []string{name}
			return
		}
	}
	if g.t.Time != "" {
		g.t.Order = []string{g.t.Time}
	} else if id := strings.TrimSuffix(strings.TrimPrefix(g.t.ID, "${"), "}"); id != "" {
		g.t.Order = []string{id}
	}
	g.note("no column is GENERATED ALWAYS AS IDENTITY: two transactions of one key may be published in the order in which they began")
}

// guessDone guesses the column that marks a published row. It never guesses deletion, because the relay
// would then publish all old rows of the table.
func (g *guess) guessDone() {
	d, names := &g.t.Done, markNames()
	if d.Column = g.find(func(c columnShape) bool { return timestamp(c.kind) && !c.notNull },
		names...); d.Column != "" {
		return
	}
	if d.Column = g.find(func(c columnShape) bool { return c.kind == "boolean" }, names...); d.Column != "" {
		return
	}
	if d.Column = g.find(nil, "status", "state"); d.Column != "" {
		d.Pending, d.Sent = "PENDING", "SENT"
		g.note("the values of %s are a guess", d.Column)
		return
	}
	if mark := g.find(nil, names...); mark != "" {
		g.note(`done is left empty: %s, a %s, seems to mark published rows: give "done": {"column": %q, "pending": …, "sent": …} with its values`,
			mark, g.s.columns[mark].kind, mark)
		return
	}
	g.note(`done is left empty, because no column seems to mark published rows: give "done": {"column": …}, or {"delete": true}, which publishes all existing rows ` +
		`and deletes each after its publication`)
}

// markNames returns usual names of columns that mark published rows.
func markNames() (names []string) {
	for _, did := range []string{"processed", "published", "sent", "dispatched", "delivered", "completed",
		"relayed", "handled"} {
		for _, form := range []string{"%sat", "%son", "%stime", "%sdate", "%s", "is%s", "was%s"} {
			names = append(names, fmt.Sprintf(form, did))
		}
	}
	return append(names, "done", "isdone", "doneat")
}
