package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"modernc.org/sqlite"

	"github.com/skald-go/skald/internal/sqlfile"
)

const (
	// busyTimeout is how long a statement waits for another process's write lock.
	busyTimeout = 5 * time.Second
	// Connections are not limited: one that waits for its turn must not keep another from taking its own.
	idleConns = 256 // each new one reads the schema, which takes a millisecond of a processor
	idleTime  = time.Minute
)

// Open opens the file at path, which it makes if it is not there, as Skald needs it: WAL, synchronous=FULL,
// foreign keys on, a busy timeout of 5 s, every transaction BEGIN IMMEDIATE. Transactions of this *sql.DB
// take turns, first come first served; reads outside a transaction do not wait for them. A connection in the
// middle of a transaction that SQLite rolled back of its own accord (a full disk, an interrupted statement)
// refuses further statements until that transaction is ended. Once another file stands at path, or none, each
// Begin and Commit answers a *store.MovedError: close the DB and open it again.
//
// It refuses SQLite before 3.51.3, which can corrupt a WAL file, and ":memory:", which each connection would
// have for itself.
func Open(path string) (*sql.DB, error) {
	if path == "" || path == ":memory:" {
		return nil, fmt.Errorf("open %q: a database of Skald is a file", path)
	}
	base, err := sqlite.NewConnector(dsn(path))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	c := &connector{Connector: base, turn: newTurnstile(), waker: newWaker()}
	db := sql.OpenDB(c)
	db.SetMaxIdleConns(idleConns)
	db.SetConnMaxIdleTime(idleTime)
	ctx, cancel := context.WithTimeout(context.Background(), 2*busyTimeout)
	defer cancel()
	err = engine(ctx, db)
	if err == nil {
		var at *place
		at, err = placeOf(path)
		c.place.Store(at)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), db.Close())
	}
	return db, nil
}

func dsn(path string) string {
	q := url.Values{
		"_busy_timeout": {strconv.FormatInt(busyTimeout.Milliseconds(), 10)},
		"_journal_mode": {"WAL"},
		"_synchronous":  {"FULL"},
		"_foreign_keys": {"1"},
		"_txlock":       {"immediate"},
		"_dqs":          {"0"},
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}

// engine checks the version of SQLite.
func engine(ctx context.Context, db *sql.DB) error {
	text, err := sqlfile.Load(statements, "sql", "")
	if err != nil {
		return err
	}
	var version string
	if err := db.QueryRowContext(ctx, text["Engine"]).Scan(&version); err != nil {
		return err
	}
	if olderThan(version, 3, 51, 3) {
		return fmt.Errorf("this is SQLite %s; 3.51.3 or newer is needed, older ones can corrupt a WAL file (sqlite.org/wal.html#walresetbug)", version)
	}
	return nil
}

func olderThan(version string, want ...int) bool {
	for i, part := range strings.SplitN(version, ".", len(want)) {
		if n, err := strconv.Atoi(part); err != nil || n != want[i] {
			return err != nil || n < want[i]
		}
	}
	return false
}
