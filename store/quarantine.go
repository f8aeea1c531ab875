package store

import (
	"context"
	"time"

	"github.com/skald-go/skald"
)

// Limits of the quarantine of a consumer. The store silently omits messages above these limits.
const (
	QuarantineOfOne = 10     // messages of one identity
	QuarantineOfAll = 10_000 // messages that are not taken yet
)

// Quarantined is a message that Skald can neither drop nor handle without a decision of an operator. The
// store has one row for each consumer, identity and fingerprint, and keeps it as long as marks. So a
// duplicate of the message changes nothing, also after the consumer has taken the message.
type Quarantined struct {
	Consumer string
	Identity
	Fingerprint int64
	Why         Outcome // TooOld or Conflict
	Message     skald.Message
	Fault       string // the reason why Message cannot be decoded and has only its payload; empty if it can

	// Bytes and the fields below are set by drivers on reading.
	Bytes    int   // of the payload, even in a Bare query
	Number   int64 // in order of arrival
	At       time.Time
	Admitted time.Time // when an operator admitted it; zero if not
	By       string    // the operator
	Reason   string    // of the operator
	Taken    time.Time // when the consumer took it; zero if not
}

// Admit permits a consumer to take a message from the quarantine.
type Admit struct {
	Number     int64
	By, Reason string // the operator and the reason; both are stored
	// Back returns an admitted message to the quarantine, because the consumer cannot take it. Guard: the
	// message is admitted and not taken.
	Back bool
}

// Applier is the part of a Store that applies effects.
type Applier interface {
	Apply(ctx context.Context, es ...Effect) ([]bool, error)
}

// AdmitAll admits messages in the quarantine. It returns the number of messages that it admitted; messages
// that are already admitted do not count.
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

// QuarantineQuery selects messages in the quarantine. Zero fields select all.
type QuarantineQuery struct {
	Consumer string
	ID       string
	Topic    string
	Type     string
	Why      Outcome
	Admitted bool  // only messages that are admitted and not taken; false selects all that are not taken
	Taken    bool  // also messages that are taken
	Bare     bool  // omit payloads
	After    int64 // only larger numbers
	Limit    int   // at most 1,000, the default
}
