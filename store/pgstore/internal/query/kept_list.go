package query

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// choice builds the WHERE conditions of a list of messages, with their arguments.
type choice struct {
	where strings.Builder
	args  []any
}

func (w *choice) is(condition, as string, arg any) { w.add(" AND ", condition, as, arg) }

func (w *choice) or(condition, as string, arg any) { w.add(" OR ", condition, as, arg) }

func (w *choice) add(how, condition, as string, arg any) {
	w.args = append(w.args, arg)
	w.where.WriteString(how + strings.ReplaceAll(condition, "?", "$"+strconv.Itoa(len(w.args))+"::"+as))
}

// byIndex adds the conditions of the query q that an index supports.
func (w *choice) byIndex(q *store.ParkedQuery) {
	if q.Consumer != "" {
		w.is("consumer = ?", "text", sqlexec.Name(q.Consumer))
	}
	if q.Identity != nil {
		w.is("source = ?", "text", sqlexec.Name(q.Identity.Source))
		w.is("id = ?", "text", sqlexec.Name(q.Identity.ID))
	}
	if q.Key != nil {
		w.is("key = ?", "bytea", sqlexec.MessageKey(q.Key))
	}
	if q.Fingerprint != "" {
		w.is("fingerprint = ?", "text", sqlexec.StorableText(q.Fingerprint))
	}
	if q.Dead != nil && *q.Dead {
		w.where.WriteString(" AND dead_at IS NOT NULL")
	} else if q.Dead != nil {
		w.where.WriteString(" AND dead_at IS NULL")
	}
	switch {
	case q.Failed && q.Dead != nil && !*q.Dead: // the condition of the partial index
		w.where.WriteString(" AND (attempts > 0 OR last_at >= first_at)")
	case q.Failed:
		w.where.WriteString(" AND (attempts > 0 OR dead_at IS NULL AND last_at >= first_at)")
	}
	if q.Calling {
		w.where.WriteString(" AND call IS NOT NULL")
	}
}

// byRow adds the conditions of the query q that the database must check for each row.
func (w *choice) byRow(q *store.ParkedQuery) {
	for _, c := range [][2]string{{"topic = ?", q.Topic}, {"type = ?", q.Type},
		{"kind = ?", q.Kind}} {
		if c[1] != "" {
			w.is(c[0], "text", sqlexec.StorableText(c[1]))
		}
	}
	if !q.DeadFrom.IsZero() {
		w.is("dead_at >= ?", "timestamptz", sqlexec.Moment(q.DeadFrom))
	}
	if !q.DeadTo.IsZero() {
		w.is("dead_at < ?", "timestamptz", sqlexec.Moment(q.DeadTo))
	}
	if column.IsHandle(q.About) { // an envelope has the ID itself and never a handle
		w.is("id = ?", "text", sqlexec.Name(q.About))
	} else if q.About != "" { // other parts of an envelope may also have that text, so List checks again
		w.is("(id = ?", "text", sqlexec.Name(q.About))
		w.or("position(convert_to(?, 'UTF8') IN envelope) > 0)", "text",
			sqlexec.StorableText(column.Within(q.About)))
	}
}

// List lists messages. If the limit Scan ended the list, lastPlace is the last examined place, otherwise 0.
func (c *Parked) List(ctx context.Context, what store.ParkedQuery,
	limit int) (out []store.Parked, lastPlace int64, err error) {
	if c.pg.Err != nil {
		return nil, 0, c.pg.Err
	}
	chosen := func(name string, w *choice) sqlexec.Call {
		if what.Key != nil {
			name += "OfKey"
		}
		return sqlexec.Call{SQL: strings.Replace(c.pg.SQL[name], "/*where*/", w.where.String(), 1),
			Args: w.args}
	}
	if what.Scan > 0 && (column.NeedsEachRow(&what) || what.Scan < limit) {
		w := choice{args: []any{what.After, int64(what.Scan) - 1}}
		w.byIndex(&what)
		if err := c.pg.Short(ctx, "find the end of the scan",
			chosen("ParkedEnd", &w).Into(&lastPlace)); err != nil {
			return nil, 0, err
		}
	}
	w := choice{args: []any{what.After, what.Bare, int32(limit)}}
	if w.byIndex(&what); lastPlace > 0 {
		w.is("place <= ?", "bigint", lastPlace)
	}
	w.byRow(&what)
	read, last := 0, int64(0)
	kept := chosen("Parked", &w)
	kept.Scan = func(row sqlexec.Scanner) error {
		p, err := scanKept(row)
		if what.Bare {
			p.Message.Headers = nil
		}
		read, last = read+1, p.Place
		if err != nil || what.About == "" || column.KeptMatches(&what, &p) {
			out = append(out, p)
		}
		return err
	}
	err = c.pg.Short(ctx, "list parked messages", kept)
	switch {
	case len(out) == limit: // the caller continues after the last message, without to
		lastPlace = 0
	case read == limit:
		lastPlace = last
	}
	return out, lastPlace, err
}

// Count counts the parked, dead and quarantined messages of a consumer.
func (c *Parked) Count(ctx context.Context, consumer string) (n store.ParkedCounts, quarantined int64,
	err error) {
	var oldest int64
	err = c.pg.Short(ctx, "count parked messages", c.pg.Call("Keeping",
		sqlexec.Name(consumer)).Into(&n.Parked, &n.Dead, &n.Bytes, &n.DeadBytes, &oldest, &quarantined))
	n.Oldest = time.Duration(oldest) * time.Microsecond
	return n, quarantined, err
}
