package partition

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

// Quarantine is the partition of messages that an operator admitted from quarantine.
const Quarantine = "skald:quarantine"

// Entry is one delivery while the inbox has it. It comes from the broker or, if Parked is set, from the
// store.
type Entry struct {
	broker.Delivery
	Chain *Chain
	Nth   int64 // number in the order of arrival

	Given   store.Identity // the result of Options.Identity.Of
	Unknown error          // why the entry has no id

	// Parked is set if the entry comes from the store. It is nil if the entry comes from the broker.
	Parked     *store.Parked
	Since      time.Time     // when the claim was sent; its lease begins at that time or later
	Lease      time.Duration // duration of the claim
	Lasting    bool          // see the function Lasting
	Prefetches bool          // it was prefetched with the claimed message of its key

	Retry bool      // it was Troubled when its attempt began
	Begun time.Time // when the current attempt began

	Done      bool // it needs no more work in this process
	Again     int  // attempts in a row after which it stayed here: in an outage, or not parked
	Full      bool // the last attempt could not park it: too many messages are parked
	Suspect   bool // it may have crashed a process
	Alone     bool // it runs while no other message runs
	Foreign   bool // this build has no handler for its type
	Untyped   bool // it has no type, and no build has a handler for messages without one
	NoSharing bool // it needs a transaction of its own, because its handler makes a call

	// While a worker has the entry, only the worker uses the following fields up to Failures.

	Step       *store.Step // the step that it does or undoes; nil if there is none, or it is unknown
	PriorStep  store.Step  // the state of Step before this attempt
	Call       *store.Call // its current outside call, or nil
	Outcome    string      // the outcome of Call to settle now; "" if there is none yet
	Settled    bool        // the outcome was unknown for a while
	Hints      int         // how often a hint named another process that handles it
	RetriesNow int         // immediate retries after skald.RetryNow in this attempt
	BusySince  time.Time   // when another transaction was first found to use its entity; zero if none
	Refused    Refusals
	First      store.Failure   // its first temporary failure before it was parked; zero if none
	Failures   []store.Failure // all temporary failures before it was parked

	Server  string // Partition.Server when a worker received the entry; "" if any server may handle it
	session string // the session of this process when the entry came
}

// Refusals counts how often in a row the store refused to park a message for an unknown reason.
type Refusals struct {
	Times int
	Since time.Time // the time of the first refusal
}

// Add counts one more refusal.
func (r *Refusals) Add(now time.Time) {
	if r.Times++; r.Times == 1 {
		r.Since = now
	}
}

// Last reports whether the next refusal is the last one, so that the message becomes a dead letter. This is
// the 16th refusal or a later one, at least 3 minutes after the first. A failover or a migration is over by
// then.
func (r *Refusals) Last(now time.Time) bool {
	return r.Times+1 >= mostRefusals && now.Sub(r.Since) >= refusedFor
}

const (
	mostRefusals = 16
	refusedFor   = 3 * time.Minute
)

// Uncounted reports whether attempts at p have failed since it was parked or requeued, but none of the
// failures counted.
func Uncounted(p *store.Parked) bool {
	return p.Dead == nil && p.Attempts == 0 && !p.First.At.IsZero() && !p.Last.At.Before(p.First.At)
}

// Lasting reports whether the failures of p do not count, or have continued for longer than grace. Other
// messages have priority over such a message.
func Lasting(p *store.Parked, grace time.Duration) bool {
	return Uncounted(p) || p.Dead == nil && p.Attempts > 0 && p.Last.At.Sub(p.First.At) >= grace
}

// Troubled reports whether other messages have priority over e, because its failures do not count, or have
// continued for long.
func (e *Entry) Troubled() bool { return !e.First.At.IsZero() || e.Lasting }

// Kind returns the topic and type of e.
func (e *Entry) Kind() store.Kind { return store.Kind{Topic: e.Topic, Type: e.Type} }

// CompareKinds orders kinds by their topics, and by their types within a topic.
func CompareKinds(a, b store.Kind) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Type, b.Type))
}

// Identity returns the identity of a message. If the message has no id, this is its position and a hash of
// key and data.
func (e *Entry) Identity() store.Identity {
	switch {
	case e.Parked != nil:
		return e.Parked.Identity
	case e.Readable():
		return e.Given
	}
	sum := sha256.Sum256(append(append([]byte(nil), e.Key...), e.Data...))
	id := strconv.FormatInt(e.Position, 10) + "-" + hex.EncodeToString(sum[:8])
	return store.Identity{Source: "skald:" + e.Partition, ID: id}
}

// Name returns the id of e for errors. If e has no id, Name returns the quoted id of Identity, because
// fingerprints of errors ignore quoted text.
func (e *Entry) Name() string {
	if e.ID != "" {
		return Shown(e.ID)
	}
	return strconv.Quote(e.Identity().ID)
}

// Shown returns s for an error message of one line. It quotes s if a character of s cannot be printed.
func Shown(s string) string {
	hidden := func(r rune) bool { return !strconv.IsPrint(r) }
	if utf8.ValidString(s) && !strings.ContainsFunc(s, hidden) {
		return s
	}
	return strconv.Quote(s)
}

// TypeAndName returns the type of e, if it has one, and its Name.
func (e *Entry) TypeAndName() string { return strings.TrimPrefix(Shown(e.Type)+" "+e.Name(), " ") }

// Readable reports whether e has a readable envelope and an id.
func (e *Entry) Readable() bool { return e.Fault == nil && e.Unknown == nil }

// TooLarge reports whether e is the stored part of a too large record, or a placeholder for such records.
func (e *Entry) TooLarge() bool {
	var large *broker.TooLargeError
	return errors.As(e.Fault, &large)
}

// Size returns the bytes of e that count towards the limit of parked bytes.
func (e *Entry) Size() int { return len(e.Key) + len(e.Data) }

// Weight returns how many bytes of memory e uses.
func (e *Entry) Weight() int { return column.Weight(&e.Message) }

// InHandOf returns the session of this process that claimed or received e. It returns "" if e came before the
// partition was opened.
func (e *Entry) InHandOf() string {
	if e.Parked != nil {
		return e.Parked.Session
	}
	return e.session
}

// CallKey returns the key of the call that e had when it was claimed, or "".
func (e *Entry) CallKey() string {
	if e.Parked == nil || e.Parked.Call == nil {
		return ""
	}
	return e.Parked.Call.Key
}

// Takes returns the step that e does, or nil if e does no step or undoes one.
func (e *Entry) Takes() *store.Step {
	if e.Step == nil || e.Step.State == store.StepUndone {
		return nil
	}
	return e.Step
}

// Crowd sets e.Full, and counts the entries of its partition with this field set.
func (e *Entry) Crowd(full bool) {
	switch l := e.Chain.Partition; {
	case full && !e.Full:
		l.Full++
	case !full && e.Full:
		l.Full--
	}
	e.Full = full
}

// Admitted reports whether e comes from the quarantine.
func (e *Entry) Admitted() bool { return e.Parked != nil && e.Parked.Partition == Quarantine }

// Another reports whether e comes from the quarantine, and another message has its identity.
func (e *Entry) Another() bool { return e.Admitted() && e.Given.Source == Quarantine }

var (
	// ErrNoEnvelope is the failure of a message with an unreadable envelope.
	ErrNoEnvelope = errors.New("inbox: the envelope cannot be read")
	// ErrTooLarge is the failure of a dead letter of the kind too_large that is redriven.
	ErrTooLarge = errors.New("inbox: the record was too large, and only part of it is stored: raise Options.Limits.Record or split it, have it sent again, and drop this dead letter")
	// ErrUnkept is the failure of a dead letter of the kind unkept that is redriven, if its payload is not
	// kept.
	ErrUnkept = errors.New("inbox: the store refused the message repeatedly, and its payload is not stored: repair the store, have the message sent again under another id, and drop this dead letter")
)

// Unreadable returns why e cannot be handled, or nil.
func (e *Entry) Unreadable() error {
	switch {
	case e.Parked != nil && strings.HasPrefix(e.Parked.Fault, failure.FaultTooLarge):
		return fmt.Errorf("%w: %s", ErrTooLarge, strings.TrimPrefix(e.Parked.Fault, failure.FaultTooLarge))
	case e.Parked != nil && !failure.IsComplete(e.Parked.Fault):
		return fmt.Errorf("%w: %s", ErrUnkept, strings.TrimPrefix(e.Parked.Fault, failure.FaultUnkept))
	case e.Parked != nil && e.Parked.Fault != "":
		return fmt.Errorf("%w: %s", ErrNoEnvelope, e.Parked.Fault)
	case e.TooLarge():
		return e.Fault
	case e.Fault != nil:
		return fmt.Errorf("%w: %w", ErrNoEnvelope, e.Fault)
	case e.Unknown != nil && e.Parked == nil:
		return fmt.Errorf("the message cannot be identified: %w", e.Unknown)
	}
	return nil
}

// Kept returns the fault to store with e when it is parked, or "" if e can be read.
func (e *Entry) Kept() string {
	switch {
	case e.Readable():
		return ""
	case e.TooLarge():
		return failure.FaultTooLarge + e.Unreadable().Error()
	}
	return e.Unreadable().Error()
}
