// Package failure classifies the errors of handlers and steps. It decides when failed work is retried, and
// when it becomes a dead letter. It also creates the data of a dead letter. The package has functions without
// side effects: the inbox and the saga engine store the results.
package failure

import (
	"errors"

	"github.com/skald-go/skald"
)

// Class is the class of an error. It determines the retries of the failed work, which is a message or a step
// of a saga.
type Class string

// The classes. The kind of a dead letter is its class, unless one of the kinds below is more specific.
const (
	Transient Class = "transient" // retried, up to Retry.Attempts and Retry.Age
	Permanent Class = "permanent" // becomes a dead letter immediately
	// Malformed work becomes a dead letter immediately: its payload or envelope cannot be decoded.
	Malformed Class = "malformed"
	// TooLarge work becomes a dead letter immediately: it exceeds a limit, or the driver did not decompress
	// it.
	TooLarge Class = "too_large"
	// UnknownVersion is retried up to Retry.Age, and attempts do not count. A newer build may decode it.
	UnknownVersion Class = "unknown version"
	Panicked       Class = "panic"           // retried like Transient; the dead letter has the stack
	Unknown        Class = "unknown outcome" // retried like Transient; an external call got no answer
	// Outage is an error that may end by itself, such as an unreachable service, a deadlock or a cancelled
	// statement. It is retried, and attempts do not count during Retry.OutageRetryTime.
	Outage Class = "outage"
	// Crash work becomes a dead letter: each time that a process ran only this message, the process ended.
	Crash     Class = "crash"
	Unhandled Class = "unhandled" // becomes a dead letter, because no build handles its type any more
)

// The kinds of dead letters that are not classes.
const (
	KindAttempts = "attempts" // Retry.Attempts are used up
	KindAge      = "age"      // it still failed after Retry.Age
	KindRejected = "rejected" // the handler rejected it
	KindSkipped  = "skipped"  // an operator skips failures with this fingerprint
	KindKeyFull  = "key_full" // its key has too many parked messages
	KindUnkept   = "unkept"   // the store could not park it, for an unknown reason
)

// Charged returns true if failures of this class always count towards Retry.Attempts. See Retry.Charges.
func (c Class) Charged() bool { return c != UnknownVersion && c != Outage }

// Of returns the class of an error. An error without a mark, such as a violated constraint or an error of
// another service, is Transient. Permanent takes precedence over Outage, because the work can never succeed.
func Of(err error) Class {
	var (
		panicked  *PanicError
		permanent *skald.PermanentError
		unknown   *UnknownError
		version   *skald.VersionError
		malformed *MalformedError
	)
	switch {
	case IsOutage(err):
		return Outage
	case errors.As(err, &panicked):
		return Panicked
	case errors.As(err, &permanent):
		return Permanent
	case errors.As(err, &unknown):
		return Unknown
	case errors.Is(err, ErrTimeout):
		return Transient
	case errors.As(err, &version):
		return UnknownVersion
	case errors.As(err, &malformed):
		return Malformed
	}
	return Transient
}

// IsOutage returns true if err wraps skald.Outage, and does not wrap skald.Permanent.
func IsOutage(err error) bool {
	var outage *skald.OutageError
	var permanent *skald.PermanentError
	return errors.As(err, &outage) && !errors.As(err, &permanent)
}

// ViolationIs returns a classifier that assigns class c to violations of unique constraints, for example of a
// natural key that also prevents duplicates. It recognizes the codes of PostgreSQL drivers (pgx, lib/pq:
// SQLSTATE 23505) and of SQLite (modernc: 1555 and 2067). For other errors it returns "", and Skald
// classifies them. Without a classifier, violations are Transient, because the other row may be deleted.
func ViolationIs(c Class) func(m skald.Message, err error) Class {
	return func(_ skald.Message, err error) Class {
		var postgres interface{ SQLState() string }
		var sqlite interface{ Code() int }
		switch {
		case errors.As(err, &postgres) && postgres.SQLState() == "23505":
			return c
		case errors.As(err, &sqlite) && (sqlite.Code() == 1555 || sqlite.Code() == 2067):
			return c
		}
		return ""
	}
}
