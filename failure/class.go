// Package failure classifies errors of handlers and steps. It decides when failed work is retried and when it
// becomes a dead letter, and creates the data of a dead letter. These are functions on data. The inbox, the
// saga engine and other callers of a user's functions store the results themselves.
package failure

import (
	"errors"

	"github.com/skald-go/skald"
)

// Class is the meaning of an error for the work that failed: a message, or a step of a saga.
type Class string

// Classes. A dead letter has its class as its kind, unless one of the kinds below is more specific.
const (
	Transient Class = "transient" // retried, up to Retry.Attempts and Retry.Age
	Permanent Class = "permanent" // a dead letter immediately
	// Malformed means a dead letter immediately: the payload or the envelope cannot be decoded.
	Malformed Class = "malformed"
	// TooLarge means a dead letter immediately: it exceeds the limit, or its driver did not decompress it.
	TooLarge Class = "too_large"
	// UnknownVersion is retried up to Retry.Age, without counting attempts: a newer build may decode it.
	UnknownVersion Class = "unknown version"
	Panicked       Class = "panic"           // like Transient, with the stack
	Unknown        Class = "unknown outcome" // like Transient: an external call got no answer
	// Outage may end by itself, like an unreachable service, a deadlock or a cancelled statement. It is
	// retried, and attempts do not count during Retry.OutageRetryTime.
	Outage Class = "outage"
	// Crash means a dead letter: its process ended each time that it ran only this message.
	Crash     Class = "crash"
	Unhandled Class = "unhandled" // a dead letter: no build handles its type any more
)

// Kinds of dead letters that are not classes.
const (
	KindAttempts = "attempts" // Retry.Attempts are used up
	KindAge      = "age"      // it still failed Retry.Age after its first failure
	KindRejected = "rejected" // its handler rejected it
	KindSkipped  = "skipped"  // an operator skips failures with this fingerprint
	KindKeyFull  = "key_full" // the limit of parked messages of its key is reached
	KindUnkept   = "unkept"   // the store refused repeatedly to park it, for an unknown reason
)

// Charged reports whether each failure of this class counts towards Retry.Attempts. See Retry.Charges.
func (c Class) Charged() bool { return c != UnknownVersion && c != Outage }

// Of returns the class of an error. An unmarked error is Transient, including a violated constraint and an
// error of another service. Permanent takes precedence over Outage, because the work can then never succeed.
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

// IsOutage reports whether err wraps skald.Outage and not also skald.Permanent.
func IsOutage(err error) bool {
	var outage *skald.OutageError
	var permanent *skald.PermanentError
	return errors.As(err, &outage) && !errors.As(err, &permanent)
}

// ViolationIs returns a classifier that assigns class c to violations of unique constraints, for example of a
// natural key that also prevents duplicates. It recognizes them by their codes: SQLSTATE 23505 of
// PostgreSQL's drivers (pgx, lib/pq), 1555 and 2067 of SQLite's (modernc). It leaves all other errors to
// Skald. Without a classifier violations are Transient, because the other row may be deleted.
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
