package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// parkedList lists messages. If the limit Scan ended the list, lastPlace is the last examined place,
// otherwise 0.
func parkedList(ctx context.Context, run *sqlexec.DB, what store.ParkedQuery,
	limit int) (out []store.Parked, lastPlace int64, err error) {
	p, err := run.Prepare(ctx)
	if err != nil {
		return nil, 0, sqlexec.Failed("list parked messages", err)
	}
	most := min(limit, cmp.Or(what.Scan, limit))
	if column.NeedsEachRow(&what) {
		most = cmp.Or(what.Scan, -1)
	}
	text, args := withConditions(p.Text("Parked"), what, most)
	rows, err := run.SQL.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, 0, sqlexec.Failed("list parked messages", err)
	}
	defer func() {
		if err = errors.Join(err, rows.Close()); err != nil {
			out, lastPlace, err = nil, 0, sqlexec.Failed("list parked messages", err)
		}
	}()
	for read := 1; len(out) < limit && rows.Next(); read++ {
		k, err := scanKept(rows.Scan)
		if err != nil {
			return nil, 0, err
		}
		if what.Bare {
			k.Message.Headers = nil
		}
		if column.KeptMatches(&what, &k) {
			out = append(out, k)
		}
		if read == what.Scan {
			lastPlace = k.Place
		}
	}
	if len(out) == limit { // the caller continues after the last message, without to
		lastPlace = 0
	}
	return out, lastPlace, rows.Err()
}

// withConditions adds the conditions of a query to the text of a statement, and returns the arguments.
// Optional conditions in a fixed statement would make SQLite read all rows, even for a look-up by ID.
func withConditions(text string, what store.ParkedQuery, limit int) (string, []any) {
	args := []any{what.After, what.Bare, limit}
	var where strings.Builder
	is := func(column string, arg any) {
		args = append(args, arg)
		where.WriteString(" AND " + column + " = ?" + strconv.Itoa(len(args)))
	}
	if what.Consumer != "" {
		is("consumer", what.Consumer)
	}
	if what.Identity != nil {
		is("source", what.Identity.Source)
		is("id", what.Identity.ID)
	}
	if what.Key != nil {
		is("key", what.Key)
	}
	if what.Fingerprint != "" {
		is("fingerprint", what.Fingerprint)
	}
	if what.Dead != nil && *what.Dead {
		where.WriteString(" AND dead_at IS NOT NULL")
	} else if what.Dead != nil {
		where.WriteString(" AND dead_at IS NULL")
	}
	switch {
	case what.Failed && what.Dead != nil && !*what.Dead: // the condition of the partial index
		where.WriteString(" AND (attempts > 0 OR last_at >= first_at)")
	case what.Failed:
		where.WriteString(" AND (attempts > 0 OR dead_at IS NULL AND last_at >= first_at)")
	}
	if what.Calling {
		where.WriteString(" AND call IS NOT NULL")
	}
	index := ""
	if what.Calling && what.Identity == nil {
		index = " INDEXED BY skald_parked_call" // otherwise SQLite reads all rows
	} else if what.Consumer != "" && what.Identity == nil && what.Failed && what.Dead != nil && !*what.Dead {
		index = " INDEXED BY skald_parked_failed" // consumers read this list often
	}
	return strings.NewReplacer("/*index*/", index, "/*where*/", where.String()).Replace(text), args
}

// keeping counts the parked, dead and quarantined messages of a consumer.
func keeping(ctx context.Context, run *sqlexec.DB, consumer string) (n store.ParkedCounts, quarantined int64,
	err error) {
	p, err := run.Prepare(ctx)
	if err != nil {
		return n, 0, sqlexec.Failed("count parked messages", err)
	}
	var oldest int64
	err = p.Row(ctx, "Keeping", consumer).Scan(&n.Parked, &n.Dead, &n.Bytes, &n.DeadBytes, &oldest)
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		err = p.Row(ctx, "CountQuarantined", consumer).Scan(&quarantined)
	}
	if err != nil {
		return n, 0, sqlexec.Failed("count parked messages", err)
	}
	n.Oldest = time.Duration(oldest) * time.Millisecond
	return n, quarantined, nil
}
