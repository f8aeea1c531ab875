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
	var s interface{ SQLState() string }
	return errors.As(err, &s) && (s.SQLState() == "40001" || s.SQLState() == "40P01")
}
