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

// errStandby: another relay has the table.
var errStandby = errors.New("another relay works on the table")

// storeTimeout bounds the talk with the database about one page, so that a connection that is dead is given
// up.
const storeTimeout = 30 * time.Second

// idleMost is how long the server waits for a relay in the middle of a page before it takes the locks back.
func (o *Options) idleMost() time.Duration { return o.publishMost() + 5*time.Second }

// publishMost bounds all calls to the broker for one page.
func (o *Options) publishMost() time.Duration { return 2 * o.Patience }

// page does one page, and tells how many rows are done and whether there may be more. Rows that the broker
// acknowledged are repeated if the process ends before the commit, or if the commit's answer is lost and it
// did not happen.
func (r *Relay) page(ctx context.Context) (done int, more bool, err error) {
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
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
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
	fit := r.fit(rows)
	if len(fit) == 0 {
		return 0, true, nil // what was malformed is deferred: the next page is another one
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

// proveWithin bounds the question whether the broker answers.
const proveWithin = 5 * time.Second

// prove asks the broker whether it answers, unless it answered the last call: a relay without its broker does
// not lock the table, which other relays may work on.
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

// claim makes tx the only relay's, unless rows are claimed one by one.
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

// fetchMost is how many payloads are read at once whose size is not known before.
const fetchMost = 32

// fetch reads what rows hold, and gives those whose payloads fit into a page.
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
		return fmt.Errorf("read payloads: %d of %d rows that are locked are not to be seen: is the database's default isolation read committed?", len(all), len(rows))
	}
	return nil
}

// smaller: after a page that took too long, or had a value that the database itself cannot read, the next one
// is half as large, so that what stands in the way is found; rows are those of the page, if it came to that.
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

// fit are the rows that can be published. The others are deferred, with the later ones of their keys.
func (r *Relay) fit(rows []*row) (fit []*row) {
	for _, one := range rows {
		r.table.read(one, r.text.bytes)
		switch {
		case r.waits(one):
		case one.malformed != "":
			r.deferRow(one, errors.New(one.malformed))
		default:
			fit = append(fit, one)
		}
	}
	return fit
}

// mark has the rows done. Another number of rows than that would be rows that are published again and again.
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

// An unmarkedError says that the database has left rows as they were.
type unmarkedError struct {
	of  int
	did int64
}

func (e *unmarkedError) Error() string {
	return fmt.Sprintf(
		"mark rows as done: of %d rows %d were marked: does a trigger, or row security, keep the others?",
		e.of, e.did)
}

// unmarkedMost is how many pages, one after another, may be published and not marked before that ends the
// relay: each try publishes their rows again.
const unmarkedMost = 3

// notMarked tells what waiting does not cure from an outage.
func (r *Relay) notMarked(err error) error {
	var kept *unmarkedError
	switch state := sqlState(err); {
	case errors.As(err, &kept):
	// refused by the table, its types or triggers
	case len(state) == 5 && strings.Contains("22 23 42 44 P0 0A 27", state[:2]):
	default:
		return err
	}
	if r.unmarked++; r.unmarked < unmarkedMost {
		return err
	}
	return r.table.wrong(fmt.Sprintf("what is published cannot be marked as done, %d times: %v",
		r.unmarked, err),
		"see to it that the relay's user may change the rows as done says; until then each start publishes the first rows again")
}

// addresses are where rows lie, as PostgreSQL takes it.
func addresses(rows []*row) (at, names string) {
	places, all := make([]string, len(rows)), make([]string, len(rows))
	for i, one := range rows {
		places[i], all[i] = one.place, one.name()
	}
	return array(places), array(all)
}
