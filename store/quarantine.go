package store

import (
	"context"
	"time"

	"github.com/skald-go/skald"
)

// Bounds of the quarantine of a consumer. Messages above these bounds are neither stored nor refused.
const (
	QuarantineOfOne = 10     // messages of one identity
	QuarantineOfAll = 10_000 // messages that are not taken yet
)

// Quarantined is a message that Skald can neither drop nor handle without an operator's decision. There is
// one row for each consumer, identity and fingerprint, and it is kept as long as marks. So a repeat of the
// message changes nothing, before or after the message is taken.
type Quarantined struct {
	Consumer string
	Identity
	Fingerprint int64
	Why         Outcome // TooOld or Conflict
	Message     skald.Message
	Fault       string // why Message cannot be decoded and has only its payload; empty if it can be decoded

	// Bytes and the fields below are set by drivers on reading.
	Bytes    int   // of the payload, even in a Bare query
	Number   int64 // in order of arrival
	At       time.Time
	Admitted time.Time // zero if the message is not admitted
	By       string    // the operator
	Reason   string    // of the operator
	Taken    time.Time // zero if the message is not taken
}

// Admit lets a consumer take a message out of quarantine.
type Admit struct {
	Number     int64
	By, Reason string // the operator and the reason; both are stored
	// Back returns an admitted message to quarantine, because the message cannot be taken. Guard: the message
	// is admitted and not taken.
	Back bool
}

// Applier is the part of a Store that applies effects.
type Applier interface {
	Apply(ctx context.Context, es ...Effect) ([]bool, error)
}

// AdmitAll admits messages in quarantine. It returns the number of messages that were not admitted before.
func AdmitAll(ctx context.Context, db Applier, numbers []int64, by, reason string) (n int, err error) {
	es := make([]Effect, len(numbers))
	for i, number := range numbers {
		es[i].Admit = &Admit{Number: number, By: by, Reason: reason}
	}
	applied, err := db.Apply(ctx, es...)
	for _, ok := range applied {
		if ok {
			n++
		}
	}
	return n, err
}

// QuarantineQuery selects messages in quarantine. Zero fields select all.
type QuarantineQuery struct {
	Consumer string
	ID       string
	Topic    string
	Type     string
	Why      Outcome
	Admitted bool  // only messages that are admitted and not taken; otherwise all that are not taken
	Taken    bool  // taken messages, too
	Bare     bool  // without payloads
	After    int64 // only larger numbers
	Limit    int   // at most 1,000, the default
}
