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
	// errHeld: the transaction outlived Intake.Handle.
	errHeld = errors.New("the transaction was held for too long and is rolled back")
	// ErrGone: SQLite rolled the transaction back in the middle.
	ErrGone = errors.New("the transaction was rolled back in the middle, after an earlier error or by a ROLLBACK: nothing more can be done in it")
)

// Outage tells of what is nobody's fault and worth the same try again: what Unable tells of, an interrupted
// statement, a transaction that was held for too long.
func Outage(err error) bool {
	for _, e := range []error{store.ErrBusy, errHeld, sql.ErrConnDone, sql.ErrTxDone, driver.ErrBadConn} {
		if errors.Is(err, e) {
			return true
		}
	}
	return Unable(err) || code(err) == sqlite3.SQLITE_INTERRUPT
}

// Unable tells of a busy or locked file, a full disk, an I/O error, memory that was not to be had.
func Unable(err error) bool {
	switch code(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL,
		sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL:
		return true
	}
	return false
}

// code is the primary result code in err; 0: it is not SQLite's.
func code(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// Busy tells that somebody else holds the file.
func Busy(err error) bool {
	c := code(err)
	return c == sqlite3.SQLITE_BUSY || c == sqlite3.SQLITE_LOCKED
}

// Failed names the act and, where the file cannot be written, the right that is missing; of no error it makes
// none.
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
