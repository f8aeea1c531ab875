package store

import (
	"errors"
	"fmt"
)

var (
	// ErrLent: the transaction was lent by Skald, which commits it; a handler must not.
	ErrLent = errors.New("store: the transaction was lent by Skald, which ends it itself: return nil to commit, an error to roll back")
	// ErrLost: a guard of an effect did not hold; nothing of the effect stands.
	ErrLost = errors.New("store: a guard was lost")
	// ErrBusy: a rival has the mark or the lock in hand. Try again.
	ErrBusy = errors.New("store: another transaction has it in hand")
	// ErrNoSettings: this database has no settings that a transaction could have.
	ErrNoSettings = errors.New("store: this database has no settings for a transaction: leave inbox.Options.Transaction.Settings out, or use PostgreSQL")
	// ErrMoved: the database does not know a tick that it gave out. It went back in time, or it is another
	// one.
	ErrMoved = errors.New("store: the database is not where it was")
	// ErrStandby: the server is a standby, whose snapshots are not ordered. An outage: it may be promoted.
	ErrStandby = errors.New("store: the server is a standby: let the URL lead to the primary (target_session_attrs=read-write), or wait for its promotion")
)

// MovedError says that the database is not the one that its shards speak of, or went back in time, or gives
// out numbers that are taken. Relays and consumers stop.
type MovedError struct{ Saw string }

func (e *MovedError) Error() string {
	return ErrMoved.Error() + ": " + e.Saw +
		": make sure that no other copy of it has relays, then run: skald outbox recover --store URL --reason …"
}

// Unwrap is ErrMoved.
func (e *MovedError) Unwrap() error { return ErrMoved }

// SchemaError says that the tables are not those that this build can use.
type SchemaError struct {
	Where      string // the schema or file
	Have       int    // 0: no tables at all
	Need, Last int    // the oldest and newest version that this build can use
	Remedy     string // what to do, "run: skald migrate --store …"
}

func (e *SchemaError) Error() string {
	if e.Have == 0 {
		return fmt.Sprintf("store: no Skald tables in %s: %s", e.Where, e.Remedy)
	}
	return fmt.Sprintf("store: the tables in %s have version %d, this build works with %d to %d: %s", e.Where,
		e.Have, e.Need, e.Last, e.Remedy)
}

// RightError says that the database refuses what a station needs.
type RightError struct {
	What   string // "INSERT on skald_outbox"
	Remedy string // "GRANT INSERT …"
	Err    error
}

func (e *RightError) Error() string {
	return fmt.Sprintf("store: missing right: %s: %s: %v", e.What, e.Remedy, e.Err)
}

func (e *RightError) Unwrap() error { return e.Err }

// LimitError says that a message breaks a limit that holds for every broker.
type LimitError struct {
	Topic, Type string
	What        string // "data is 1000000 bytes, at most 921600 are allowed"
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("store: message %s on topic %q: %s", e.Type, e.Topic, e.What)
}

// RetentionError says that rows or marks cannot be kept as long, or as briefly, as was asked.
type RetentionError struct {
	What   string // "marks are kept 1h0m0s, rows 2h0m0s"
	Remedy string
}

func (e *RetentionError) Error() string {
	return fmt.Sprintf("store: retention: %s: %s", e.What, e.Remedy)
}

// An EncodingError says that a database, or the connection to it, cannot carry every text.
type EncodingError struct {
	Where, Encoding string // "the database shop", "LATIN1"
	Remedy          string
}

func (e *EncodingError) Error() string {
	return fmt.Sprintf("store: %s has the encoding %s, Skald needs UTF8: %s", e.Where, e.Encoding, e.Remedy)
}

// Incurable tells whether waiting cannot cure err: a missing table, a wrong version, a missing right,
// settings where there are none, a retention that cannot be, an encoding that cannot carry every text, a
// database that moved.
func Incurable(err error) bool {
	var schema *SchemaError
	var right *RightError
	var retention *RetentionError
	var encoding *EncodingError
	var moved *MovedError
	return errors.As(err, &moved) || errors.As(err, &schema) || errors.As(err, &right) ||
		errors.As(err, &retention) || errors.As(err, &encoding) || errors.Is(err, ErrNoSettings) ||
		errors.Is(err, ErrNoIsolation)
}
