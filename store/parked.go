package store

import (
	"time"

	"github.com/skald-go/skald"
)

// KeyOrder is the order that an intake requires between a message and other messages of its key.
type KeyOrder int8

// Orders of a key. Each except Anytime locks the key of the consumer until the transaction ends. A message
// without a key locks itself. So only one message of a key is in progress at a time.
const (
	Anytime KeyOrder = iota // no requirement
	// Arriving is for a message from the broker. The message is fresh only if no message of its key is
	// parked, and if it is neither parked nor dead itself.
	Arriving
	// Retrying is for a claimed message. The message is fresh only while it is parked with Mark.Attempts. It
	// must also be the first of its key, or directly follow the messages before it in the intake.
	Retrying
)

// Parked is a message that the store keeps for a consumer, either to retry it or as a dead letter. A consumer
// handles the parked messages of one key, of any topic, in the order in which they were parked.
type Parked struct {
	Consumer string
	// Identity is the identity that the message itself has, if it has one.
	Identity
	Message   skald.Message
	Partition string // of the broker, with Position
	Position  int64
	Fault     string // the reason why the message cannot be decoded; empty if it can

	Attempts int // number of counted failed attempts; 0 means that the message only waits
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
	// Session is the session that has the message in progress until Due, because it claimed the message or
	// plans a call. Empty means that no session has the message. The messages of a dead session become due
	// when another session takes its partitions: see SyncRequest.Take.
	Session string
	// Claims is the number of claims without a result, including this one. If it is above 1, a process ended
	// while this message was in progress.
	Claims int
	// CrashCount is the number of processes that ended while this message was their only message in progress.
	CrashCount int

	// Since is the time at which the message was parked. Drivers set it on reading.
	Since time.Time
	// Place is the number of the message in the order of parking. Drivers set it on reading.
	Place int64
	// Waiting reports that the message waits for earlier messages of its key. Drivers set it on reading.
	Waiting bool
}

// MaxFailures is the maximum number of Parked.Failures.
const MaxFailures = 10

// Failure is one failed attempt.
type Failure struct {
	At   time.Time
	Why  string // the chain of errors, cut to 4 KiB
	Host string // the host of the process
}

// Death is the reason why a message is a dead letter.
type Death struct {
	At          time.Time
	Kind        string // "attempts", "age", "malformed", "permanent", …
	Fingerprint string // groups dead letters: equal for failures of one kind
	Stack       string // of a panic, cut to 16 KiB
	Version     string // the version of the program
	// BlocksKey reports that later messages of the key wait until an operator redrives or drops the dead
	// letter. It has no effect if the step of the message (Park.Step) is barred or undone.
	BlocksKey bool
}

// Park parks a message or makes it a dead letter. Guards: the message has no mark, unless Marked is set, and
// the conditions of Was and Instead hold.
type Park struct {
	Parked
	// Marked permits that the message has a mark, and does not delete that mark. A rejection that becomes a
	// dead letter needs Marked.
	Marked bool
	// Instead, if not nil, is another message of the same key. Park deletes that message and puts this
	// message in its place. Guard: the message in Instead is parked or dead, and has no external call,
	// because the call would be lost. Park does not store Claims, CrashCount and Session of this message.
	Instead *Identity
	// Was, if not nil, requires that the message is parked with this number of attempts. Nil requires that
	// the message is neither parked nor dead, and that its key has room.
	Was *int
	// WasCall, if Was is not nil, is the required key of the message's external call; empty requires that the
	// message has no call. So a decision that is older than a planned call does not undo that call. A message
	// without a call gets a Call only while it is the first of its key.
	WasCall string
	// WasClaim, if not nil, is the claim that the caller read. It applies only if Was is not nil. Guard:
	// since then, no session has claimed or finished the message. Use WasClaim to change a message that
	// another session may have in progress.
	WasClaim *Claim
	// Step, if not nil, is the step of the message. Park records the step as parked or dead, unless the step
	// is in another state.
	Step *Step
	// Server is the required server session, as in Intake; empty allows any. Guard, if Was is nil: the effect
	// runs on the session on which the message was received. After a restore, the guard fails, and the broker
	// delivers the message again, in the order of its key.
	Server string
	// MostRows and MostBytes limit the parked messages of one key. 0 means no limit.
	MostRows, MostBytes int64
}

// Claim is the number of claims of a message without a result, and the session of the last claim.
type Claim struct {
	Claims  int
	Session string
}

// Requeue makes a parked message or dead letter due now, and keeps its attempts. Guard: the message is parked
// or dead.
//
// A dead letter is parked again at its old place, with one exception: if it does not block its key and a
// later message of the key has an external call, it goes to the end of the key. Otherwise the dead letter
// would come before the message with the call, and could wait for the outcome of that call. The same
// exception applies to a message that replaces another by Park.Instead.
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
	// parked and has at least this number of attempts. So Requeue does nothing after the message died, or
	// after another operator requeued it. It still works after one more failure.
	Attempts *int
}

// Finish deletes a parked message or dead letter; the next message of its key becomes due. Guards: the
// message exists. If Attempts is not nil, the message is parked with this number of attempts, and WasCall
// holds. If DeadAt is not zero, the message is the dead letter that died at that time.
type Finish struct {
	Consumer string
	Identity
	Attempts *int
	// WasCall, if Attempts is not nil, is the required key of the message's external call; empty requires
	// that the message has no call. So a caller that read the message before a call was planned cannot finish
	// the message during the call.
	WasCall string
	// DeadAt, if not zero, is the time at which the message died, as the caller read it. So Finish does not
	// drop a dead letter that an operator redrove meanwhile, even if it died again.
	DeadAt time.Time
	// Place, if not 0, is the expected place. A message at another place counts as not found.
	Place int64
}

// Audit records an operator's action on a message, and the reason.
type Audit struct {
	Author, Reason, Action string // "redrive", "release", "drop", "import", "recover"
	Consumer               string
	Identity
	Run string // the run of a bulk action, such as a redrive; empty for a single action

	// Number and the fields below are set by drivers on reading.
	Number int64 // in order of writing
	At     time.Time
	// Login is the database user; empty if the database has none, or did not record it.
	Login string
}

// ClaimSize limits a claim.
type ClaimSize struct {
	Keys int // maximum number of keys; of each key at most the first message is claimed
	// Prefetch is the maximum number of messages to read directly after each claimed message. The process
	// handles prefetched messages in the transaction of the claimed message, or not at all, so they need no
	// claim of their own. A claim prefetches nothing after a message that has a call, that ended its process,
	// or that has an earlier claim without a result. It also stops before such a message, before a dead
	// letter, and before a type of ClaimRequest.Not. After a claim without a result, the next claim also
	// raises Claims of the prefetched messages.
	Prefetch    int
	PrefetchAll int // maximum number of prefetched messages of all keys together
}

// Claimed is the result of Claim.
type Claimed struct {
	Parked []Parked // by Place; prefetched messages have Waiting set
	Sagas  []Saga   // the longest due first
	// Next is the time until more work is due. 0 means that more work may be due now, because the claim ended
	// at a limit. Negative means that no more work will be due.
	Next time.Duration
	// Admitted reports that the consumer must take an admitted message from its quarantine.
	Admitted bool
	// Sync is the result of a SyncConsumer that only reads, if ClaimRequest.Sync is true.
	Sync SyncResult
}

// ParkedCounts counts the parked messages and dead letters of a consumer. Above 10,000 of each, a store may
// estimate the numbers and bytes. Oldest is always exact.
type ParkedCounts struct {
	Parked, Dead int64
	Bytes        int64         // of the keys and payloads of parked messages
	DeadBytes    int64         // of the keys and payloads of dead letters
	Oldest       time.Duration // time since the oldest message was parked; 0 without parked messages
}

// ParkedQuery selects parked messages and dead letters. Zero fields select all.
type ParkedQuery struct {
	Consumer    string
	Identity    *Identity
	Key         []byte
	Fingerprint string
	Dead        *bool // true selects only dead letters, false only parked messages
	Failed      bool  // only messages with a failed attempt
	Calling     bool  // only messages with an external call
	After       int64 // only messages with a larger Place
	Bare        bool  // omit data and headers
	Limit       int   // default 1,000

	// Topic, Type and the fields below have no index. The store examines at most Scan of the messages that
	// the fields above select; 0 means all. If Scan ends the list before Limit, Listed.ParkedTo is the last
	// examined place.
	Topic, Type, Kind string
	DeadFrom, DeadTo  time.Time // only dead letters that died from DeadFrom to before DeadTo
	About             string    // the id, correlation, cause or subject
	Scan              int
}
