package store

import "errors"

// Isolation is the isolation level of a transaction.
type Isolation int8

// Isolation levels of the SQL standard.
const (
	ReadCommitted Isolation = iota
	RepeatableRead
	Serializable
)

// ErrNoIsolation reports that the isolation of this database cannot be chosen.
var ErrNoIsolation = errors.New("store: this database has no levels of isolation: leave inbox.Options.Transaction.Isolation out, or use PostgreSQL or SQLite")

// Collided reports whether an error with this SQLSTATE aborted one transaction in favour of another, so that
// a retry may succeed immediately. These are serialization failures and deadlocks.
func Collided(err error) bool {
	code := sqlState(err)
	return code == "40001" || code == "40P01"
}

// Contended reports whether a transaction of a rival caused err: Collided, a lock timeout (55P03) or ErrBusy.
func Contended(err error) bool {
	return Collided(err) || sqlState(err) == "55P03" || errors.Is(err, ErrBusy)
}

func sqlState(err error) string {
	var s interface{ SQLState() string }
	if !errors.As(err, &s) {
		return ""
	}
	return s.SQLState()
}
