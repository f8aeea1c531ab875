package foreign

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/internal/sqlfile"
)

// Suggest makes a Table of what the columns of the table of that name are called, to begin with, and tells in
// notes what to look at. Name "" is the only table of the database that is called an outbox.
func Suggest(ctx context.Context, db *sql.DB, name string) (t Table, notes []string, err error) {
	if name == "" {
		if name, err = only(ctx, db); err != nil {
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
	g.done()
	if whole := t; whole.Done == (Done{}) {
		whole.Done.Delete = true // whoever reads the notes says it
		return t, g.notes, whole.check()
	}
	return t, g.notes, t.check()
}

// only is the table that is called an outbox.
func only(ctx context.Context, db *sql.DB) (string, error) {
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
	what := "several are called an outbox: " + strings.Join(names, ", ")
	if len(names) == 0 {
		what = "none is called an outbox"
	}
	return "", &TableError{Table: "of the outbox", What: what, Remedy: "name the table"}
}

// A guess fills a Table by the names of columns.
type guess struct {
	s     *shape
	t     *Table
	notes []string
}

func (g *guess) note(format string, args ...any) {
	g.notes = append(g.notes, fmt.Sprintf(format, args...))
}

// find is the first column that has one of the names, whatever its letters and underscores, and is fit.
func (g *guess) find(fit func(columnShape) bool, names ...string) string {
	plain := strings.NewReplacer("_", "")
	for _, want := range names {
		for _, have := range g.s.order {
			if plain.Replace(strings.ToLower(have)) == want && (fit == nil || fit(g.s.columns[have])) {
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
			g.note("the key is %s: is it what messages are to keep their order by?", t.Key)
		} else {
			g.note("no column looks like a key: without one no order is kept")
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
		g.note("the topic is %q, by the aggregate's type: is it where consumers look?", t.Topic)
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

// topicOf is a topic that is called as nearly like that as one may be.
func topicOf(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '.' || !complete.Topic(string(r)) {
			return '_'
		}
		return r
	}, name)
}

// reference is the first column that is called after another thing's id.
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
	g.note("no column counts up, GENERATED ALWAYS AS IDENTITY: two transactions of one key may be published in the order in which they began")
}

// done guesses how a row says that it is published. It never guesses that rows are to be deleted: where a
// table holds what was published long ago, that would publish all of it again.
func (g *guess) done() {
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
		g.note(`done is left empty: %s, a %s, seems to say it: give "done": {"column": %q, "pending": …, "sent": …} with its values`,
			mark, g.s.columns[mark].kind, mark)
		return
	}
	g.note(`done is left empty, as no column says what is published: give "done": {"column": …}, or {"delete": true}, which publishes all rows ` +
		`that are there and deletes each once it is published`)
}

// markNames are what a column is called that says what is published.
func markNames() (names []string) {
	for _, did := range []string{"processed", "published", "sent", "dispatched", "delivered", "completed",
		"relayed", "handled"} {
		for _, form := range []string{"%sat", "%son", "%stime", "%sdate", "%s", "is%s", "was%s"} {
			names = append(names, fmt.Sprintf(form, did))
		}
	}
	return append(names, "done", "isdone", "doneat")
}
