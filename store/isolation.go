package store

import "errors"

// Isolation is how far transactions are kept apart.
type Isolation int8

// Levels of isolation, as SQL has them.
const (
	ReadCommitted Isolation = iota
	RepeatableRead
	Serializable
)

// ErrNoIsolation: this database keeps transactions apart by its own rule.
var ErrNoIsolation = errors.New("store: this database has no levels of isolation: leave inbox.Options.Transaction.Isolation out, or use PostgreSQL or SQLite")

// Collided tells, by its SQLSTATE, of an error that says: the transaction was given up for another, and may
// succeed at once. A serialization failure, or a deadlock.
func Collided(err error) bool {
	var s interface{ SQLState() string }
	return errors.As(err, &s) && (s.SQLState() == "40001" || s.SQLState() == "40P01")
}
