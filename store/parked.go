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
	// Arriving is for a message from the broker. It is fresh only if no message of its key is parked and it
	// is neither parked nor dead itself.
	Arriving
	// Retrying is for a claimed message. It is fresh only while it is parked with Mark.Attempts. It must be
	// the first of its key, or directly follow the messages before it in the intake.
	Retrying
)

// Parked is a message that the store keeps unchanged for a consumer, either to retry it or as a dead letter.
// Messages of one key, of any topic, are handled in the order in which they were parked.
type Parked struct {
	Consumer string
	// Identity is the message's own, if it has one.
	Identity
	Message   skald.Message
	Partition string // of the broker, with Position
	Position  int64
	Fault     string // why its envelope cannot be decoded; empty if it can

	Attempts int // failed and counted attempts; 0 means that it only waits
	// Due is the time until the next attempt, by the store's clock. For a message that waits for others of
	// its key it counts from when it becomes the first.
	Due time.Duration
	// First is the first failed attempt. If the message was requeued after others of its key, At is the time
	// of that: its age counts from then.
	First Failure
	Last  Failure
	// Failures are the last failed attempts, oldest first, including Last. Drivers store at most MaxFailures,
	// and at most 300 bytes of each error. Requeue leaves them unchanged.
	Failures []Failure

	Dead *Death // nil while it is parked
	Call *Call  // its external call; nil if it has none. Requeue leaves it unchanged
	// Session has the message in progress until it is due: it claimed it, or plans a call. Empty means none.
	// The messages of a dead session become due when another one takes its partitions: see SyncRequest.Take.
	Session string
	// Claims is the number of claims without an answer, including this one. Above 1, a process ended while it
	// had the message in progress.
	Claims int
	// CrashCount counts the ends of processes that ran only this message at the time.
	CrashCount int

	// Since is when it was parked. Drivers set it on reading.
	Since time.Time
	// Place is its number in the order of arrival. Drivers set it on reading.
	Place int64
	// Waiting reports that others of its key come first. Drivers set it on reading.
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
	// BlocksKey reports that later messages of its key wait until it is redriven or dropped. It has no effect
	// if its step (Park.Step) is barred or undone.
	BlocksKey bool
}

// Park parks a message or makes it a dead letter. Guards: the message has no mark, unless Marked is set, and
// the conditions of Was and Instead hold.
type Park struct {
	Parked
	// Marked allows and preserves a mark. It is set for a rejection that becomes a dead letter, too.
	Marked bool
	// Instead, if not nil, is a message of the same key that is deleted; this one takes its place. Guard: it
	// is parked or dead, and has no external call, which this message would lose. Claims, CrashCount and
	// Session of this message are not stored.
	Instead *Identity
	// Was, if not nil, is the number of attempts that the message is parked with. Nil means that it is
	// neither parked nor dead, and that its key has room.
	Was *int
	// WasCall, if Was is not nil, is the key of its external call; empty means that it has none. So a
	// decision that was read before a call was planned does not undo it. A message without a call gets a Call
	// only while it is first of its key.
	WasCall string
	// WasClaim, if neither it nor Was is nil, is the claim that was read. Guard: the message has not been
	// claimed or answered since. Use it to change a message that another session may have in progress.
	WasClaim *Claim
	// Step, if not nil, is the step of the message. It is recorded as parked or dead, unless it already has
	// another state than these.
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
// its old place. An exception is a dead letter that does not block its key, if a later message of the key has
// an external call. It goes to the end of its key. So a message with a call never gets one before it that
// could wait for the outcome. The same holds for a message that replaces another by Park.Instead. Guard: the
// message is parked or dead.
type Requeue struct {
	Consumer string
	Identity
	// Dead limits it to dead letters. If the message is none, nothing changes and no guard is lost.
	Dead bool
	// DeadAt, if not zero, is when the message died, as the caller read it. Guard: it is still that dead
	// letter, and was not redriven and died again.
	DeadAt time.Time
	// Attempts, if not nil, is the number of attempts, as the caller read it. Guard: the message is still
	// parked and has at least as many. So it is not released after it died or after another operator released
	// it, but is released after one more failure.
	Attempts *int
}

// Finish deletes a parked message or dead letter; the next message of its key becomes due. Guards: the
// message is there. If Attempts is not nil, it is parked with this number, and WasCall holds. If DeadAt is
// not zero, it is that dead letter.
type Finish struct {
	Consumer string
	Identity
	Attempts *int
	// WasCall, if Attempts is not nil, is the key of its external call; empty means that it has none. So a
	// caller that read the message before a call was planned does not finish it during the call.
	WasCall string
	// DeadAt, if not zero, is when it died, as the caller read it. So a dead letter that was redriven
	// meanwhile is not dropped, even if it died again.
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
	Keys int // at most the first messages of so many keys
	// Prefetch is the number of messages directly after each claimed one that are read with it. They are
	// handled in the transaction of the first, or not at all, so they need no claim of their own. None is
	// read after a message that has a call, ended its process, or was claimed before without an answer. The
	// list also ends before such a message, a dead letter and a type that is left to other builds. After a
	// claim without an answer, the next claim counts in Claims of these messages, too.
	Prefetch    int
	PrefetchAll int // prefetched messages of all keys together
}

// Claimed is the result of Claim.
type Claimed struct {
	Parked []Parked // by Place; prefetched ones are Waiting
	Sagas  []Saga   // longest due first
	// Next is the time until more work is due. 0 means that more may be due already: the claim ended at a
	// limit. Negative means that there is none.
	Next time.Duration
	// Admitted reports that a message in the consumer's quarantine was admitted and is not taken yet.
	Admitted bool
	// Sync, if ClaimRequest.Sync is set, is the result of a SyncConsumer that only reads.
	Sync SyncResult
}

// ParkedCounts counts the parked messages and dead letters of a consumer. Up to 10,000 each are counted;
// above that, a store may estimate the numbers and bytes. Oldest is always exact.
type ParkedCounts struct {
	Parked, Dead int64
	Bytes        int64         // keys and payloads of parked messages
	DeadBytes    int64         // keys and payloads of dead letters
	Oldest       time.Duration // since the oldest was parked; 0 if there is none
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
	// the fields above select (0: all). If that ends the list before Limit, Listed.ParkedTo is the last place
	// examined.
	Topic, Type, Kind string
	DeadFrom, DeadTo  time.Time // only dead letters that died from DeadFrom to before DeadTo
	About             string    // the id, correlation, cause or subject
	Scan              int
}
