package store

import (
	"errors"
	"fmt"
)

var (
	// ErrLent reports that a handler tried to end a transaction that Skald commits itself. The inbox makes
	// the message a dead letter without a retry, because a retry could repeat the statements after a
	// ROLLBACK.
	ErrLent = errors.New("store: the transaction was lent by Skald, which ends it itself: return nil to commit, an error to roll back")
	// ErrUnshared reports that a function left a savepoint, a setting or a temporary object in the
	// transaction, or kept its connection. The next function needs another transaction.
	ErrUnshared = errors.New("store: a function left a savepoint, a setting or a temporary object, or kept the connection: the next function needs another transaction")
	// ErrLost reports that a guard of an effect did not hold: a row is not in the state that the effect
	// requires. The store wrote nothing of the effect.
	ErrLost = errors.New("store: a guard of the effect did not hold")
	// ErrBusy reports that a concurrent transaction holds the mark or the lock. The caller should retry.
	ErrBusy = errors.New("store: another transaction holds the mark or the lock: try again")
	// ErrNoSettings reports that this database has no settings for a transaction.
	ErrNoSettings = errors.New("store: this database has no settings for a transaction: leave inbox.Options.Transaction.Settings out, or use PostgreSQL")
	// ErrMoved reports that the database lacks a tick, a position of the outbox, that it returned before. The
	// database was restored to an earlier state, or it is another database.
	ErrMoved = errors.New("store: the database went back in time or is another one")
	// ErrStandby reports that the server is a standby. Skald cannot write there, and snapshots of a standby
	// have no order. ErrStandby is an outage, because a standby may be promoted.
	ErrStandby = errors.New("store: the server is a standby: let the URL lead to the primary (target_session_attrs=read-write), or wait for its promotion")
)

// MovedError reports that the database was copied or restored to an earlier state, or that its sequences
// return used numbers. Relays and consumers stop until an operator runs Recover.
type MovedError struct{ Observed string }

func (e *MovedError) Error() string {
	return ErrMoved.Error() + ": " + e.Observed +
		": make sure that no other copy of this database has relays, then run: skald outbox recover --store URL --reason …"
}

// Unwrap returns ErrMoved.
func (e *MovedError) Unwrap() error { return ErrMoved }

// SchemaError reports that Skald's tables are missing, or have a version that this build cannot use.
type SchemaError struct {
	Where      string // the schema or file
	Have       int    // the version found; 0 means that there are no tables
	Need, Last int    // the oldest and newest version that this build supports
	Remedy     string // the command to run: "run: skald migrate --store …"
}

func (e *SchemaError) Error() string {
	if e.Have == 0 {
		return fmt.Sprintf("store: no Skald tables in %s: %s", e.Where, e.Remedy)
	}
	return fmt.Sprintf("store: the tables in %s have version %d, this build works with %d to %d: %s", e.Where,
		e.Have, e.Need, e.Last, e.Remedy)
}

// RightError reports that the database user lacks a right that Skald needs.
type RightError struct {
	What   string // "INSERT on skald_outbox"
	Remedy string // "GRANT INSERT …"
	Err    error
}

func (e *RightError) Error() string {
	return fmt.Sprintf("store: missing right: %s: %s: %v", e.What, e.Remedy, e.Err)
}

func (e *RightError) Unwrap() error { return e.Err }

// LimitError reports that a message exceeds a limit that applies to every broker.
type LimitError struct {
	Topic, Type string
	What        string // "data is 1000000 bytes, at most 921600 are allowed"
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("store: message %s on topic %q: %s", e.Type, e.Topic, e.What)
}

// RetentionError reports a retention that is too short or too long for the database.
type RetentionError struct {
	What   string // "marks are kept 1h0m0s, rows 2h0m0s"
	Remedy string
}

func (e *RetentionError) Error() string {
	return fmt.Sprintf("store: retention: %s: %s", e.What, e.Remedy)
}

// EncodingError reports that a database, or the connection to it, cannot store every Unicode text.
type EncodingError struct {
	Where, Encoding string // "the database shop", "LATIN1"
	Remedy          string
}

func (e *EncodingError) Error() string {
	return fmt.Sprintf("store: %s has the encoding %s, Skald needs UTF8: %s", e.Where, e.Encoding, e.Remedy)
}

// LentError is a failure in the transaction of a handler or a step, while Skald's own transactions succeed.
// So the handler caused the failure, for example by a role that it set. Incurable returns false for a
// LentError.
type LentError struct{ Err error }

func (e *LentError) Error() string {
	return "Skald's tables and rights are in order outside of this transaction, so a handler or step changed something in it: " +
		e.Err.Error()
}

// Unwrap returns Err.
func (e *LentError) Unwrap() error { return e.Err }

// Incurable reports whether a retry cannot succeed until a person fixes something. Such errors are a missing
// table, a wrong version, a missing right, unsupported settings or isolation, an impossible retention, an
// encoding other than UTF-8, and a database that moved. Incurable returns false for a LentError.
func Incurable(err error) bool {
	if lent := (*LentError)(nil); errors.As(err, &lent) {
		return false
	}
	var schema *SchemaError
	var right *RightError
	var retention *RetentionError
	var encoding *EncodingError
	var moved *MovedError
	return errors.As(err, &moved) || errors.As(err, &schema) || errors.As(err, &right) ||
		errors.As(err, &retention) || errors.As(err, &encoding) || errors.Is(err, ErrNoSettings) ||
		errors.Is(err, ErrNoIsolation)
}
