package sqlexec

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
)

const (
	// BusyTimeout is the time that a statement waits for the write lock of another process.
	BusyTimeout = 5 * time.Second
	// idleConns limits idle connections. It is high, because opening a connection takes 1 ms of CPU to read
	// the schema. There is no limit of all connections: connections that wait for their turn could block the
	// connection that has the turn.
	idleConns = 256
	idleTime  = time.Minute
)

// Open opens the file at path with Skald's settings, and creates it if it does not exist. Transactions run
// one at a time. A transaction refuses statements after SQLite rolled it back, or if path leads to another
// file.
func Open(path string) (*sql.DB, error) {
	if path == "" || path == ":memory:" {
		return nil, fmt.Errorf("open %q: Skald needs a file", path)
	}
	base, err := sqlite.NewConnector(DSN(path))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	c := &connector{Connector: base, turn: newTurnstile(), waker: newWaker()}
	db := sql.OpenDB(c)
	db.SetMaxIdleConns(idleConns)
	db.SetConnMaxIdleTime(idleTime)
	ctx, cancel := context.WithTimeout(context.Background(), 2*BusyTimeout)
	defer cancel()
	err = Engine(ctx, db)
	if err == nil {
		var at *place
		at, err = placeOf(path)
		c.place.Store(at)
	}
	if err != nil {
		return nil, errors.Join(Failed("open "+path, err), db.Close())
	}
	return db, nil
}

// DSN returns the data source name of the file at path, with Skald's settings.
func DSN(path string) string {
	q := url.Values{
		"_busy_timeout": {strconv.FormatInt(BusyTimeout.Milliseconds(), 10)},
		"_journal_mode": {"WAL"},
		"_synchronous":  {"FULL"},
		"_foreign_keys": {"1"},
		"_txlock":       {"immediate"},
		"_dqs":          {"0"},
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}

// Engine returns an error if the SQLite of db is too old for WAL files.
func Engine(ctx context.Context, db *sql.DB) error {
	text, err := texts()
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
