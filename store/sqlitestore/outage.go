package sqlitestore

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
	// errGone: SQLite rolled the transaction back in the middle.
	errGone = errors.New("the transaction was rolled back in the middle, after an earlier error or by a ROLLBACK: nothing more can be done in it")
)

// Outage tells of a busy or locked file, a full disk, an I/O error, a transaction that was held for too long.
func (s *Store) Outage(err error) bool {
	for _, e := range []error{store.ErrBusy, errHeld, sql.ErrConnDone, sql.ErrTxDone, driver.ErrBadConn} {
		if errors.Is(err, e) {
			return true
		}
	}
	switch code(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL,
		sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_INTERRUPT:
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

func busy(err error) bool {
	c := code(err)
	return c == sqlite3.SQLITE_BUSY || c == sqlite3.SQLITE_LOCKED
}

// failed names the act and, where the file cannot be written, the right that is missing.
func failed(act string, err error) error {
	if c := code(err); c == sqlite3.SQLITE_READONLY || c == sqlite3.SQLITE_PERM {
		err = &store.RightError{What: "writing the file",
			Remedy: "let this user write the file and its folder", Err: err}
	}
	return fmt.Errorf("%s: %w", act, err)
}
