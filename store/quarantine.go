package store

import (
	"context"
	"time"

	"github.com/skald-go/skald"
)

// Bounds of what is in quarantine for a consumer. What comes above them is not kept, and not refused either.
const (
	QuarantineOfOne = 10     // messages under one identity
	QuarantineOfAll = 10_000 // that nobody has admitted and taken
)

// A Quarantined message is kept until somebody decides: Skald can neither drop nor take it by itself. Its
// consumer, identity and fingerprint are its own for as long as marks are kept, so that a repeat of it
// changes nothing, before it is taken and after.
type Quarantined struct {
	Consumer string
	Identity
	Fingerprint int64
	Why         Outcome // TooOld or Conflict
	Message     skald.Message
	Fault       string // why the stored message cannot be read; "": it can. Message has its payload alone then

	// Only read.
	Bytes    int   // of the payload, which a Bare query does not read
	Number   int64 // in the order of their coming
	At       time.Time
	Admitted time.Time // zero: it is not
	By       string    // who admitted it
	Reason   string    // and why
	Taken    time.Time // zero: it is not
}

// An Admit lets the consumer of a message in quarantine take it.
type Admit struct {
	Number     int64
	By, Reason string // the operator, and why; both are stored with the message
	// Back puts one back that was admitted and cannot be taken. Guard: it is admitted, and not taken
	Back bool
}

// An Applier is the part of a Store that carries out effects.
type Applier interface {
	Apply(ctx context.Context, es ...Effect) ([]bool, error)
}

// AdmitAll admits messages in quarantine, and tells how many were not admitted before.
func AdmitAll(ctx context.Context, db Applier, numbers []int64, by, reason string) (n int, err error) {
	es := make([]Effect, len(numbers))
	for i, number := range numbers {
		es[i].Admit = &Admit{Number: number, By: by, Reason: reason}
	}
	stood, err := db.Apply(ctx, es...)
	for _, ok := range stood {
		if ok {
			n++
		}
	}
	return n, err
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
	Bare     bool  // without payloads
	After    int64 // only larger numbers
	Limit    int   // at most 1,000, the default
}
