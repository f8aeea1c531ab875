// This file reads a page of rows, publishes it, and marks its rows as done, in one transaction.

package foreign

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/skald-go/skald/store"
)

// errStandby is returned if another relay works on the table.
var errStandby = errors.New("another relay works on the table")

// storeTimeout limits each statement of a page, to detect dead connections.
const storeTimeout = 30 * time.Second

// idleMost returns the time after which the server ends a relay's idle transaction, and frees its locks.
func (o *Options) idleMost() time.Duration { return o.publishMost() + 5*time.Second }

// publishMost returns the limit for all calls to the broker for one page.
func (o *Options) publishMost() time.Duration { return 2 * o.Patience }

// publishPage publishes one page. The result count is the number of published rows, and more is true if
// there may be more rows. If the process ends before the commit, or if the commit fails, the rows are
// published again.
func (r *Relay) publishPage(ctx context.Context) (count int, more bool, err error) {
	if err := r.settle(ctx); err != nil {
		return 0, false, err
	}
	topics, keys, places := r.deferred.except()
	if !r.some {
		if some, err := r.peek(ctx, topics, keys, places); err != nil || !some {
			return 0, false, err
		}
	}
	if err := r.prove(ctx); err != nil {
		return 0, false, err
	}
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, false, fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // no effect after a commit
	if err := r.claim(ctx, tx); err != nil {
		return 0, false, err
	}
	puts := r.deferred.puts
	rows, err := r.read(ctx, tx, topics, keys, places)
	if err == nil {
		rows, err = r.fetch(ctx, tx, rows)
	}
	if err != nil {
		more, err = r.smaller(rows, err)
		return 0, more, err
	}
	if r.limit *= 2; r.limit > r.o.Page || len(rows) == 0 {
		r.limit = r.o.Page
	}
	if len(rows) == 0 {
		return 0, false, nil
	}
	fit := r.publishable(rows)
	if len(fit) == 0 {
		return 0, true, nil // malformed rows are deferred, so the next page has other rows
	}
	taken, err := r.publish(ctx, fit)
	if err != nil || len(taken) == 0 {
		return 0, r.deferred.puts > puts, err
	}
	if err := r.mark(ctx, tx, taken); err != nil {
		return 0, false, r.notMarked(err)
	}
	if err := tx.Commit(); err != nil {
		return 0, false, fmt.Errorf("commit: %w", err)
	}
	r.unmarked = 0
	return len(taken), true, nil
}

// proveWithin limits the wait for an answer to the test of the broker.
const proveWithin = 5 * time.Second

// prove tests the broker, unless it answered the last call. A relay without a reachable broker must not lock
// the table, so that other relays can work.
func (r *Relay) prove(ctx context.Context) error {
	if r.proved {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, proveWithin)
	defer cancel()
	if _, err := r.bus.Incarnation(ctx); err != nil {
		return fmt.Errorf("ask the broker: %w", err)
	}
	r.proved = true
	return nil
}

func (r *Relay) peek(ctx context.Context, topics, keys, places string) (some bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := r.db.QueryRowContext(ctx, r.text.peek, topics, keys, places).Scan(&some); err != nil {
		return false, fmt.Errorf("look for rows: %w", err)
	}
	return some, nil
}

// claim takes the advisory lock of the table, which only one relay at a time can have. With ClaimRows it
// takes no lock, because the page locks single rows.
func (r *Relay) claim(ctx context.Context, tx *sql.Tx) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	var lock, idle, whole sql.NullString
	var mine bool
	if err := tx.QueryRowContext(ctx, r.text.begin).Scan(&lock, &idle, &whole, &mine); err != nil {
		return fmt.Errorf("claim the table: %w", err)
	}
	if !mine {
		return errStandby
	}
	return nil
}

func (r *Relay) read(ctx context.Context, tx *sql.Tx, topics, keys, places string) ([]*row, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	found, err := tx.QueryContext(ctx, r.text.page, topics, keys, places, r.limit)
	if err != nil {
		return nil, fmt.Errorf("read rows: %w", err)
	}
	defer found.Close()
	var out []*row
	for found.Next() {
		one := &row{}
		if err := one.scan(found); err != nil {
			return nil, fmt.Errorf("read rows: %w", err)
		}
		out = append(out, one)
	}
	if err := found.Err(); err != nil {
		return nil, fmt.Errorf("read rows: %w", err)
	}
	return out, nil
}

// fetchMost is the number of payloads that are read together if their sizes are unknown before reading.
const fetchMost = 32

// fetch reads the payloads and headers of rows. It returns the first rows, whose payloads fit into a page.
func (r *Relay) fetch(ctx context.Context, tx *sql.Tx, rows []*row) ([]*row, error) {
	n, bytes, most := 0, 0, len(rows)
	if !r.text.exact {
		most = fetchMost
	}
	for n < len(rows) && bytes < store.PageBytes {
		some := rows[n:min(n+most, len(rows))]
		if err := r.payloads(ctx, tx, some); err != nil {
			return rows, err
		}
		for _, one := range some {
			bytes += len(one.payload)
		}
		n += len(some)
	}
	return rows[:n], nil
}

func (r *Relay) payloads(ctx context.Context, tx *sql.Tx, rows []*row) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	at, names := addresses(rows)
	found, err := tx.QueryContext(ctx, r.text.payloads, at, names)
	if err != nil {
		return fmt.Errorf("read payloads: %w", err)
	}
	defer found.Close()
	all := make(map[string]*row, len(rows))
	for _, one := range rows {
		all[one.name()] = one
	}
	for found.Next() {
		var name string
		var one row
		if err := found.Scan(&name, &one.payload, &one.bytes, &one.headersIn,
			&one.headersInBytes); err != nil {
			return fmt.Errorf("read payloads: %w", err)
		}
		if is := all[name]; is != nil {
			is.payload, is.bytes, is.headersIn, is.headersInBytes = one.payload, one.bytes, one.headersIn,
				one.headersInBytes
			delete(all, name)
		}
	}
	if err := found.Err(); err != nil {
		return fmt.Errorf("read payloads: %w", err)
	}
	if len(all) > 0 {
		return fmt.Errorf("read payloads: %d of %d locked rows are not visible: set the default isolation of the database to read committed", len(all), len(rows))
	}
	return nil
}

// smaller halves the size of the next page, to isolate a row at fault. It does so after a page that took too
// long, or that has a value that the database cannot read. rows has the rows of the page, if they were read.
func (r *Relay) smaller(rows []*row, why error) (more bool, err error) {
	broken := strings.HasPrefix(sqlState(why), "22")
	switch {
	case broken && len(rows) == 1:
		rows[0].message.Topic = rows[0].topic.String
		r.deferRow(rows[0], why)
		return true, nil
	case !broken && !errors.Is(why, context.DeadlineExceeded), r.limit == 1:
		return false, why
	}
	if len(rows) > 0 {
		r.limit = min(r.limit, len(rows))
	}
	if r.limit = max(r.limit/2, 1); broken {
		return true, nil
	}
	return false, why
}

// publishable returns the rows that can be published now. It defers the other rows, and later rows of their
// keys.
func (r *Relay) publishable(rows []*row) (fit []*row) {
	for _, one := range rows {
		r.table.read(one, r.text.bytes)
		switch {
		case r.mustWait(one):
		case one.malformed != "":
			r.deferRow(one, errors.New(one.malformed))
		default:
			fit = append(fit, one)
		}
	}
	return fit
}

// mark marks rows as done. It returns an error if the database marks fewer rows, because the relay would
// publish the others again and again.
func (r *Relay) mark(ctx context.Context, tx *sql.Tx, rows []*row) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	at, names := addresses(rows)
	did, err := tx.ExecContext(ctx, r.text.mark, at, names)
	if err != nil {
		return fmt.Errorf("mark rows as done: %w", err)
	}
	n, err := did.RowsAffected()
	if err != nil {
		return fmt.Errorf("mark rows as done: %w", err)
	}
	if n != int64(len(rows)) {
		return &unmarkedError{len(rows), n}
	}
	return nil
}

// unmarkedError reports that the database did not mark all rows as done.
type unmarkedError struct {
	of  int
	did int64
}

func (e *unmarkedError) Error() string {
	return fmt.Sprintf(
		"mark rows as done: of %d rows %d were marked: check triggers and row security of the table",
		e.of, e.did)
}

// unmarkedMost is the number of published but unmarked pages in a row after which the relay ends. Each
// attempt publishes the rows again.
const unmarkedMost = 3

// notMarked returns a *TableError if rows could not be marked for the last time that is allowed. For an
// outage it returns err.
func (r *Relay) notMarked(err error) error {
	var kept *unmarkedError
	switch state := sqlState(err); {
	case errors.As(err, &kept):
	// The table, its types or its triggers refuse the change.
	case len(state) == 5 && strings.Contains("22 23 42 44 P0 0A 27", state[:2]):
	default:
		return err
	}
	if r.unmarked++; r.unmarked < unmarkedMost {
		return err
	}
	return r.table.wrong(fmt.Sprintf("published rows could not be marked as done, %d times: %v",
		r.unmarked, err),
		"let the relay's user change the rows as done says; until then each start publishes the first rows again")
}

// addresses returns the positions and the names of rows as PostgreSQL arrays.
func addresses(rows []*row) (at, names string) {
	places, all := make([]string, len(rows)), make([]string, len(rows))
	for i, one := range rows {
		places[i], all[i] = one.place, one.name()
	}
	return array(places), array(all)
}
