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

// Quarantine is the partition that messages come from which were admitted out of quarantine.
const Quarantine = "skald:quarantine"

// An Entry is one delivery on its way through the inbox.
type Entry struct {
	broker.Delivery
	Chain *Chain
	Nth   int64 // in which order it came

	Given   store.Identity // what Options.Identity.Of says of it
	Unknown error          // why it has no id

	// It was claimed, if not nil: it comes from the store, not from the broker.
	Parked     *store.Parked
	Since      time.Time     // the claim was asked for then, and has lasted no longer
	Lease      time.Duration // for which it is ours, from then
	Lasting    bool          // see the function
	Prefetches bool          // it was not claimed, but read along with the first of its key

	Retry bool      // it was begun as one of Troubled
	Begun time.Time // the attempt that is in progress

	Done    bool
	Again   int  // attempts in a row after which it is still here: outages, and no room to park it
	Full    bool // of those, the latter
	Suspect bool // it may have been in hand when a process died
	Alone   bool // it is run while nothing else runs
	Foreign bool // this build has no handler for its type
	Untyped bool // it has no type, and no build has a handler for that
	Lonely  bool // it shares no transaction: its handler makes a call, or a batch with it hung

	// What its attempts know. They have it to themselves while it is in hand.
	Step      *store.Step // that it takes or undoes; nil: none, or not known yet
	Stood     store.Step  // how that stood, in this attempt
	Call      *store.Call // to the outside that it is at; nil: none yet, or never
	Outcome   string      // of it, which is to be settled now; "": not yet
	Settled   bool        // that was not known for a while
	Hints     int         // how often another process seemed to have it in hand
	Overtaken int         // how often in this attempt
	InLine    time.Time   // since when its entity is in use; zero: it is not
	Refused   Refusals
	// the first of its failures by what may pass, while it is not parked; zero: there is none
	First store.Failure

	Server  string // on which its partition was taken, as it was when the entry was handed out; "": any
	session string // ours, when it came
}

// Refusals counts how often in a row a store refused to park a message for an unknown reason.
type Refusals struct {
	Times int
	Since time.Time // the first
}

// Add counts one more.
func (r *Refusals) Add(now time.Time) {
	if r.Times++; r.Times == 1 {
		r.Since = now
	}
}

// Last reports whether one more refusal is the last: there were many, for long enough that a failover or a
// migration is over.
func (r *Refusals) Last(now time.Time) bool {
	return r.Times+1 >= mostRefusals && now.Sub(r.Since) >= refusedFor
}

const (
	mostRefusals = 16
	refusedFor   = 3 * time.Minute
)

// Uncharged reports whether attempts at p have failed since it was parked or released, and none was charged.
func Uncharged(p *store.Parked) bool {
	return p.Dead == nil && p.Attempts == 0 && !p.First.At.IsZero() && !p.Last.At.Before(p.First.At)
}

// Lasting reports whether attempts at p have failed uncharged, or for longer than free: it has cost enough to
// wait for others.
func Lasting(p *store.Parked, free time.Duration) bool {
	return Uncharged(p) || p.Dead == nil && p.Attempts > 0 && p.Last.At.Sub(p.First.At) >= free
}

// Troubled reports whether e waits for others: attempts at it failed uncharged, or for long.
func (e *Entry) Troubled() bool { return !e.First.At.IsZero() || e.Lasting }

// Kind is the type of e within its topic.
func (e *Entry) Kind() store.Kind { return store.Kind{Topic: e.Topic, Type: e.Type} }

// CompareKinds orders kinds by their topics, and by their types within a topic.
func CompareKinds(a, b store.Kind) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Type, b.Type))
}

// Identity is what a message is known by: where it has no id, by where it lies at the broker and what it is.
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

// Name is the id of e in errors: its own, else, in quotes, what it is known by. A fingerprint of an error
// leaves out what is in quotes.
func (e *Entry) Name() string {
	if e.ID != "" {
		return Shown(e.ID)
	}
	return strconv.Quote(e.Identity().ID)
}

// Shown returns s for an error, which is one line: in quotes if a character of s cannot be printed.
func Shown(s string) string {
	hidden := func(r rune) bool { return !strconv.IsPrint(r) }
	if utf8.ValidString(s) && !strings.ContainsFunc(s, hidden) {
		return s
	}
	return strconv.Quote(s)
}

// TypeAndName is Name behind the type, if e has one.
func (e *Entry) TypeAndName() string { return strings.TrimPrefix(Shown(e.Type)+" "+e.Name(), " ") }

// Readable tells whether it is known what e is.
func (e *Entry) Readable() bool { return e.Fault == nil && e.Unknown == nil }

// TooLarge tells whether e is what is kept of a record, or stands for records, that nobody reads.
func (e *Entry) TooLarge() bool {
	var large *broker.TooLargeError
	return errors.As(e.Fault, &large)
}

// Size is what e takes of what may be parked.
func (e *Entry) Size() int { return len(e.Key) + len(e.Data) }

// Weight is what e takes of memory.
func (e *Entry) Weight() int { return column.Weight(&e.Message) }

// InHandOf is the session of ours in which it is in hand; "": nobody knows of it.
func (e *Entry) InHandOf() string {
	if e.Parked != nil {
		return e.Parked.Session
	}
	return e.session
}

// CallKey is the key of the call that e was read at; "": of none.
func (e *Entry) CallKey() string {
	if e.Parked == nil || e.Parked.Call == nil {
		return ""
	}
	return e.Parked.Call.Key
}

// Takes is the step that e takes, for what becomes of it; nil: it takes none.
func (e *Entry) Takes() *store.Step {
	if e.Step == nil || e.Step.State == store.StepUndone {
		return nil
	}
	return e.Step
}

// Crowd counts the entries of a partition that should be parked and cannot.
func (e *Entry) Crowd(full bool) {
	switch l := e.Chain.Partition; {
	case full && !e.Full:
		l.Full++
	case !full && e.Full:
		l.Full--
	}
	e.Full = full
}

// Admitted tells whether e comes from the quarantine.
func (e *Entry) Admitted() bool { return e.Parked != nil && e.Parked.Partition == Quarantine }

// Another tells whether e comes from the quarantine although another message has its identity.
func (e *Entry) Another() bool { return e.Admitted() && e.Given.Source == Quarantine }

var (
	// ErrNoEnvelope is the failure of a message whose envelope cannot be read.
	ErrNoEnvelope = errors.New("inbox: the envelope cannot be read")
	// ErrTooLarge is the failure of a dead letter of the kind too_large that is redriven.
	ErrTooLarge = errors.New("inbox: it was too large, and not all of it is kept: have it sent again in parts, or after Options.Limits.Record was raised, and drop this letter")
	// ErrUnkept is the failure of a dead letter of the kind unkept that is redriven, if its payload is not
	// kept.
	ErrUnkept = errors.New("inbox: the store refused it again and again, and its payload is not kept: repair the store, have the message sent again under another id, and drop this letter")
)

// Unreadable is why e cannot be taken; nil: it can.
func (e *Entry) Unreadable() error {
	switch {
	case e.Parked != nil && strings.HasPrefix(e.Parked.Fault, failure.FaultTooLarge):
		return fmt.Errorf("%w: %s", ErrTooLarge, strings.TrimPrefix(e.Parked.Fault, failure.FaultTooLarge))
	case e.Parked != nil && !failure.Whole(e.Parked.Fault):
		return fmt.Errorf("%w: %s", ErrUnkept, strings.TrimPrefix(e.Parked.Fault, failure.FaultUnkept))
	case e.Parked != nil && e.Parked.Fault != "":
		return fmt.Errorf("%w: %s", ErrNoEnvelope, e.Parked.Fault)
	case e.TooLarge():
		return e.Fault
	case e.Fault != nil:
		return fmt.Errorf("%w: %w", ErrNoEnvelope, e.Fault)
	case e.Unknown != nil && e.Parked == nil:
		return fmt.Errorf("what is it: %w", e.Unknown)
	}
	return nil
}

// Kept is the Fault that is kept of e; "": e can be read.
func (e *Entry) Kept() string {
	switch {
	case e.Readable():
		return ""
	case e.TooLarge():
		return failure.FaultTooLarge + e.Unreadable().Error()
	}
	return e.Unreadable().Error()
}
