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
	// BusyTimeout is how long a statement waits for another process's write lock.
	BusyTimeout = 5 * time.Second
	// idleConns limits only idle connections. A limit of all would let connections that wait for their turn
	// block the one that has it.
	idleConns = 256 // opening one reads the schema: 1 ms of CPU
	idleTime  = time.Minute
)

// Open opens the file at path with Skald's settings, and creates it if it does not exist. Its transactions
// take turns. They refuse statements after SQLite rolled them back, or if path leads to another file.
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

// DSN returns the driver's name of the file at path, with Skald's settings.
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

// Engine returns an error if this SQLite is too old.
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
