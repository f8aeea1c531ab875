package sqlexec

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/skald-go/skald/store"
)

var (
	// errHeld reports that the transaction exceeded Intake.Handle.
	errHeld = errors.New("the transaction was held for too long and is rolled back")
	// ErrGone reports that the transaction was rolled back before its end: by SQLite, or by a statement.
	ErrGone = errors.New("SQLite rolled the transaction back after an earlier error, or a ROLLBACK ended it: no further statement is possible")
)

// Outage reports whether err is temporary, so that the caller should retry: an error of Unable, an
// interrupted statement, or a transaction that exceeded its limit.
func Outage(err error) bool {
	for _, e := range []error{store.ErrBusy, errHeld, sql.ErrConnDone, sql.ErrTxDone, driver.ErrBadConn} {
		if errors.Is(err, e) {
			return true
		}
	}
	return Unable(err) || code(err) == sqlite3.SQLITE_INTERRUPT
}

// Unable reports whether err is a busy or locked file, a full disk, an I/O error or lack of memory.
func Unable(err error) bool {
	switch code(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL,
		sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL:
		return true
	}
	return false
}

// code returns SQLite's primary result code in err; 0 if err has none.
func code(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// Busy reports whether another connection has the file locked.
func Busy(err error) bool {
	c := code(err)
	return c == sqlite3.SQLITE_BUSY || c == sqlite3.SQLITE_LOCKED
}

// Failed adds act to err. It returns a *store.RightError if the file is read-only. If err is nil, Failed
// returns nil.
func Failed(act string, err error) error {
	if err == nil {
		return nil
	}
	if c := code(err); c == sqlite3.SQLITE_READONLY || c == sqlite3.SQLITE_PERM {
		err = &store.RightError{What: "writing the file",
			Remedy: "let this user write the file and its folder", Err: err}
	}
	return fmt.Errorf("%s: %w", act, err)
}
