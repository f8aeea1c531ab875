package store

import (
	"time"

	"github.com/skald-go/skald"
)

// A Quarantined message is kept until somebody decides: Skald can neither drop nor take it by itself. Its consumer, identity
// and fingerprint are its own for ever, so that a repeat of it changes nothing, before it is taken and after.
type Quarantined struct {
	Consumer string
	Identity
	Fingerprint int64
	Why         Outcome // TooOld or Conflict
	Message     skald.Message

	// Only read.
	Number   int64 // in the order of their coming
	At       time.Time
	Admitted time.Time // zero: it is not
	By       string    // who admitted it
	Reason   string    // and why
	Taken    time.Time // zero: it is not
}

// A Query chooses among messages in quarantine. Zero fields choose all.
type Query struct {
	Consumer string
	ID       string
	Topic    string
	Type     string
	Why      Outcome
	Admitted bool  // only those that are admitted and not taken; else all that are not taken
	Taken    bool  // those that were taken, too
	After    int64 // only larger numbers
	Limit    int   // at most 1,000, the default
}
