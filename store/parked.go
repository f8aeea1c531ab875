package store

import (
	"time"

	"github.com/skald-go/skald"
)

// KeyOrder is the requirement of a mark on the order of its key.
type KeyOrder int8

// Orders of a key. Each except Anytime first locks the key of the consumer, or the message itself if it has
// no key, until the transaction ends. So only one message of a key is in progress at a time, wherever it
// comes from.
const (
	Anytime KeyOrder = iota // no requirement
	// Arriving is for a message from the broker. The message is fresh only if no message of its key is
	// parked, and if it is neither parked nor dead itself.
	Arriving
	// Retrying is for a claimed message. The message is fresh only while it is parked with Mark.Attempts. It
	// must also be the first of its key, or directly follow the messages before it in the intake.
	Retrying
)

// Parked is a message that the store keeps unchanged for a consumer, either to retry it or as a dead letter.
// Messages of one key, of any topic, are handled in the order in which they were parked.
type Parked struct {
	Consumer string
	// Identity is the identity that the message itself has, if it has one.
	Identity
	Message   skald.Message
	Partition string // of the broker, with Position
	Position  int64
	Fault     string // why its envelope cannot be decoded; empty if it can

	Attempts int // attempts that failed and were counted; 0 means that the message only waits
	// Due is the time until the next attempt, by the store's clock. If the message waits for earlier messages
	// of its key, the time counts from the moment when it becomes the first.
	Due time.Duration
	// First is the first failed attempt. If the message was requeued after other messages of its key,
	// First.At is the time of the requeue, because the age of the message counts from then.
	First Failure
	Last  Failure
	// Failures are the last failed attempts, oldest first, including Last. Drivers store at most MaxFailures,
	// and at most 300 bytes of each error. Requeue leaves them unchanged.
	Failures []Failure

	Dead *Death // nil while it is parked
	Call *Call  // its external call; nil if it has none. Requeue leaves it unchanged
	// Session is the session that has the message in progress until it is due, because it claimed the message
	// or plans a call. Empty means that no session has the message. The messages of a dead session become due
	// when another session takes its partitions: see SyncRequest.Take.
	Session string
	// Claims is the number of claims without an answer, including this one. If it is above 1, a process ended
	// while this message was in progress.
	Claims int
	// CrashCount is the number of processes that ended while this message was their only message in progress.
	CrashCount int

	// Since is when it was parked. Drivers set it on reading.
	Since time.Time
	// Place is the message's number in the order of arrival. Drivers set it on reading.
	Place int64
	// Waiting reports that earlier messages of the key come first. Drivers set it on reading.
	Waiting bool
}

// MaxFailures is the maximum number of Parked.Failures.
const MaxFailures = 10

// Failure is one failed attempt.
type Failure struct {
	At   time.Time
	Why  string // the chain of errors, cut to 4 KiB
	Host string // the host that ran it
}

// Death is the reason why a message is a dead letter.
type Death struct {
	At          time.Time
	Kind        string // "attempts", "age", "malformed", "permanent", …
	Fingerprint string // groups dead letters: equal for failures of one kind
	Stack       string // of a panic, cut to 16 KiB
	Version     string // of the program
	// BlocksKey reports that later messages of the key wait until the dead letter is redriven or dropped.
	// BlocksKey has no effect if the step of the message (Park.Step) is barred or undone.
	BlocksKey bool
}

// Park parks a message or makes it a dead letter. Guards: the message has no mark, unless Marked is set, and
// the conditions of Was and Instead hold.
type Park struct {
	Parked
	// Marked allows and preserves a mark. A rejection that becomes a dead letter also has Marked set.
	Marked bool
	// Instead, if not nil, is a message of the same key. It is deleted, and this message takes its place.
	// Guard: the message in Instead is parked or dead, and has no external call, because the call would be
	// lost. Claims, CrashCount and Session of this message are not stored.
	Instead *Identity
	// Was, if not nil, is the number of attempts that the message is parked with. Nil means that the message
	// is neither parked nor dead, and that its key has room.
	Was *int
	// WasCall, if Was is not nil, is the key of the message's external call; empty means that the message has
	// no call. So a decision that is older than a planned call does not undo that call. A message without a
	// call gets a Call only while it is the first of its key.
	WasCall string
	// WasClaim, if not nil, is the claim that was read. It applies only if Was is not nil. Guard: the message
	// has not been claimed or answered since. Use it to change a message that another session may have in
	// progress.
	WasClaim *Claim
	// Step, if not nil, is the step of the message. The step is recorded as parked or dead, unless it already
	// has a state other than these two.
	Step *Step
	// Server is the server session on which the message was received, as in Intake; empty allows any. Guard,
	// if Was is nil: the effect runs on that session. After a restore, the broker delivers the message again,
	// in the order of its key.
	Server string
	// MostRows and MostBytes limit the parked messages of one key. 0 means no limit.
	MostRows, MostBytes int64
}

// Claim is the number of claims of a message without an answer, and the session of the last one.
type Claim struct {
	Claims  int
	Session string
}

// Requeue makes a parked message or dead letter due now, with its attempts. A dead letter is parked again at
// its old place. There is one exception: a dead letter that does not block its key goes to the end of the key
// if a later message of the key has an external call. Otherwise it would be before the message with the call,
// and could wait for the outcome of the call. The same exception applies to a message that replaces another
// by Park.Instead. Guard: the message is parked or dead.
type Requeue struct {
	Consumer string
	Identity
	// Dead limits Requeue to dead letters. If the message is not a dead letter, nothing changes and no guard
	// is lost.
	Dead bool
	// DeadAt, if not zero, is the time at which the message died, as the caller read it. Guard: the message
	// is still that dead letter. The guard is lost if the message was redriven and died again.
	DeadAt time.Time
	// Attempts, if not nil, is the number of attempts, as the caller read it. Guard: the message is still
	// parked and has at least this number of attempts. So Requeue does not release the message after it died,
	// or after another operator released it. It does release the message after one more failure.
	Attempts *int
}

// Finish deletes a parked message or dead letter; the next message of its key becomes due. Guards: the
// message exists. If Attempts is not nil, the message is parked with this number of attempts, and WasCall
// holds. If DeadAt is not zero, the message is the dead letter that died at that time.
type Finish struct {
	Consumer string
	Identity
	Attempts *int
	// WasCall, if Attempts is not nil, is the key of the message's external call; empty means that the
	// message has no call. So a caller that read the message before a call was planned does not finish the
	// message during the call.
	WasCall string
	// DeadAt, if not zero, is the time at which the message died, as the caller read it. So a dead letter
	// that was redriven meanwhile is not dropped, even if it died again.
	DeadAt time.Time
	// Place, if not 0, is the expected place. A message at another place counts as not found.
	Place int64
}

// Audit records an operator's action on a message, and the reason.
type Audit struct {
	Author, Reason, Action string // "redrive", "release", "drop", "import", "recover"
	Consumer               string
	Identity
	Run string // the redrive that it belongs to; empty if none

	// Number and the fields below are set by drivers on reading.
	Number int64 // in order of writing
	At     time.Time
	// Login is the database user; empty if the database has none, or did not record it.
	Login string
}

// ClaimSize limits a claim.
type ClaimSize struct {
	Keys int // maximum number of keys; of each key at most the first message is claimed
	// Prefetch is the number of messages directly after each claimed message that are read with it.
	// Prefetched messages are handled in the transaction of the claimed message, or not at all, so they need
	// no claim of their own. Nothing is read after a message that has a call, that ended its process, or that
	// was claimed before without an answer. The list also ends before such a message, before a dead letter,
	// and before a type that is left to other builds. After a claim without an answer, the next claim also
	// raises Claims of the prefetched messages.
	Prefetch    int
	PrefetchAll int // prefetched messages of all keys together
}

// Claimed is the result of Claim.
type Claimed struct {
	Parked []Parked // by Place; prefetched ones are Waiting
	Sagas  []Saga   // longest due first
	// Next is the time until more work is due. 0 means that more work may be due already, because the claim
	// ended at a limit. Negative means that there is no more work.
	Next time.Duration
	// Admitted reports that a message in the consumer's quarantine was admitted and is not taken yet.
	Admitted bool
	// Sync is the result of a SyncConsumer that only reads. It is set only if ClaimRequest.Sync is.
	Sync SyncResult
}

// ParkedCounts counts the parked messages and dead letters of a consumer. Up to 10,000 of each are counted;
// above that, a store may estimate the numbers and bytes. Oldest is always exact.
type ParkedCounts struct {
	Parked, Dead int64
	Bytes        int64         // keys and payloads of parked messages
	DeadBytes    int64         // keys and payloads of dead letters
	Oldest       time.Duration // since the oldest message was parked; 0 if there is none
}

// ParkedQuery selects parked messages and dead letters. Zero fields select all.
type ParkedQuery struct {
	Consumer    string
	Identity    *Identity
	Key         []byte
	Fingerprint string
	Dead        *bool // true: only dead letters; false: only parked ones
	Failed      bool  // only with attempts, or with several failures
	Calling     bool  // only with an external call
	After       int64 // only with a larger Place
	Bare        bool  // without data and headers
	Limit       int   // default 1,000

	// Topic, Type and the fields below have no index. The store examines at most Scan of the messages that
	// the fields above select (0: all). If this limit ends the list before Limit, Listed.ParkedTo is the last
	// place that was examined.
	Topic, Type, Kind string
	DeadFrom, DeadTo  time.Time // only dead letters that died from DeadFrom to before DeadTo
	About             string    // the id, correlation, cause or subject
	Scan              int
}
