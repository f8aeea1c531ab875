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

// ErrNoIsolation reports that this database does not support the requested isolation level.
var ErrNoIsolation = errors.New("store: this database has no levels of isolation: leave inbox.Options.Transaction.Isolation out, or use PostgreSQL or SQLite")

// Collided reports whether err is a serialization failure or a deadlock. The database aborted one transaction
// so that another could continue, and a retry may succeed immediately.
func Collided(err error) bool {
	code := sqlState(err)
	return code == "40001" || code == "40P01"
}

// Contended reports whether a concurrent transaction caused err: Collided, a lock timeout (55P03) or ErrBusy.
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
