// Package failure says what an error means for the work that failed by it, when that work is tried again, and
// what a dead letter says of it. These are functions on data: the inbox, the saga engine and whatever else
// runs functions of a user in a transaction store the answers themselves.
package failure

import (
	"errors"

	"github.com/skald-go/skald"
)

// A Class says what an error means for the work that failed by it: a message, or one step of a saga.
type Class string

// Classes. A dead letter has its class as its kind, unless one of the kinds below says more.
const (
	Transient Class = "transient" // tried again, up to Retry.Attempts and Retry.Age
	Permanent Class = "permanent" // a dead letter at once
	// a dead letter at once: the payload or the envelope cannot be read
	Malformed Class = "malformed"
	// a dead letter at once: larger than the limit, or not unpacked by its driver
	TooLarge Class = "too_large"
	// tried again, uncharged, up to Retry.Age: a newer build may know it
	UnknownVersion Class = "unknown version"
	Panicked       Class = "panic"           // as Transient, with the stack
	Unknown        Class = "unknown outcome" // as Transient: an outside call gave no answer
	// it may pass by itself (a service is away, a deadlock, a cancelled statement): tried again, uncharged
	// for Retry.Uncharged
	Outage Class = "outage"
	// a dead letter: its process ended each time that nothing else was run
	Crash     Class = "crash"
	Unhandled Class = "unhandled" // a dead letter: no build handles its type any more
)

// Kinds of dead letters that are no classes.
const (
	KindAttempts = "attempts" // it failed Retry.Attempts times
	KindAge      = "age"      // it still failed when Retry.Age had passed since its first failure
	KindRejected = "rejected" // its handler rejected it
	KindSkipped  = "skipped"  // an operator has failures of this fingerprint skipped
	KindKeyFull  = "key_full" // no more may be parked of its key
	KindUnkept   = "unkept"   // the store refused again and again to park it, for an unknown reason
)

// Charged reports whether each failure of this class counts towards Retry.Attempts. See Retry.Charges.
func (c Class) Charged() bool { return c != UnknownVersion && c != Outage }

// Of returns the class of an error. An error that says nothing of itself is Transient, the violation of a
// constraint and the error of another service included. Permanent stands above Outage: it says that the work
// can never succeed.
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

// IsOutage reports whether err is a verdict of skald.Outage and not one of skald.Permanent too.
func IsOutage(err error) bool {
	var away *skald.OutageError
	var permanent *skald.PermanentError
	return errors.As(err, &away) && !errors.As(err, &permanent)
}

// ViolationIs returns a classifier that gives class c to violations of unique constraints, such as a natural
// key that guards an effect a second time. It knows them by their codes: SQLSTATE 23505 of PostgreSQL's
// drivers (pgx, lib/pq), 1555 and 2067 of SQLite's (modernc). It leaves every other error to Skald. Without a
// classifier violations are Transient: the other row may be deleted.
func ViolationIs(c Class) func(m skald.Message, err error) Class {
	return func(_ skald.Message, err error) Class {
		var server interface{ SQLState() string }
		var file interface{ Code() int }
		switch {
		case errors.As(err, &server) && server.SQLState() == "23505":
			return c
		case errors.As(err, &file) && (file.Code() == 1555 || file.Code() == 2067):
			return c
		}
		return ""
	}
}
