package store

import (
	"time"

	"github.com/skald-go/skald"
)

// A Turn is what the order of a key asks of a mark.
type KeyOrder int8

// Turns. Each but Anytime locks the key of its consumer, or the message itself if it has none, before all
// else and until the transaction ends: so one message of a key is in hand at a time, wherever it comes from.
const (
	Anytime KeyOrder = iota // nothing
	// it came from the broker: fresh only if nothing of its key is parked, and it is not kept itself
	Arriving
	// it was claimed: fresh only while it is parked, with Mark.Attempts, first of its key, or directly behind
	// those before it in the intake
	Retrying
)

// Parked is a message that the store keeps for a consumer, byte for byte: parked, until its turn comes, or a
// dead letter. Messages of one key (of any topic) are taken in the order in which they were parked.
type Parked struct {
	Consumer string
	// Identity is the message's own, where it has one.
	Identity
	Message   skald.Message
	Partition string // where it came from at the broker
	Position  int64
	Fault     string // why its envelope could not be read; "": it could

	Attempts int // that failed and were charged; 0: it only waits
	// from now, by the store's clock: not before. Behind others of its key: once it is the first
	Due time.Duration
	// of its attempts; At is newer where it was released behind it: its age counts from there
	First Failure
	Last  Failure
	Dead  *Death // nil: it is parked
	Call  *Call  // that it is at; nil: none. Release leaves it as it is
	// Life is of who has it in hand until it is due: who claimed it, or intends a call. Empty: nobody. What a
	// session that has died has in hand is due once somebody else has its partitions: see Attend.Take.
	Session string
	// Claims is how often it was claimed without an answer, this time included. Above 1, somebody died with
	// it in hand.
	Claims int
	// CrashCount is how often its process ended while nothing but it was run.
	CrashCount int

	// Since is when it was parked. Only read.
	Since time.Time
	// Place is its place in the order of arrival. Only read.
	Place int64
	// Waiting: others of its key are before it. Only read.
	Waiting bool
}

// A Failure is one failed attempt.
type Failure struct {
	At   time.Time
	Why  string // the chain of errors; at most 4 KiB, longer ones are cut
	Host string // on which it was
}

// A Death says why a message is a dead letter.
type Death struct {
	At          time.Time
	Kind        string // "attempts", "age", "malformed", "permanent", …
	Fingerprint string // equal for failures of one kind: groups dead letters
	Stack       string // of a panic; at most 16 KiB, longer ones are cut
	Version     string // of the program
	// Holds: the messages of its key wait until it is redriven or dropped. Of one whose Keep.Step is barred
	// or undone they do not.
	BlocksKey bool
}

// Park parks a message or makes it a dead letter. Guard: it has no mark, unless Marked; and as Was or Instead
// says.
type Park struct {
	Parked
	// Marked: it may have a mark, and keeps it. A rejection that is a dead letter, too.
	Marked bool
	// Instead, if it is not nil, is a kept message of the same key that goes; this one takes its place.
	// Guard: it is kept, and at no call, of which this one would not know. Claims, CrashCount and Session of
	// this one are not stored.
	Instead *Identity
	// Was, if it is not nil, is the number of attempts that it is parked with. Nil: it is not kept yet, and
	// its key has room.
	Was *int
	// WasCall, where Was is not nil, is the key of the call that it is at; "": it is at none. What was read
	// before a call was intended does not undo that. One that is at none gets a Call only while it is the
	// first of its key.
	WasCall string
	// WasClaim, if it is not nil, is the claim that it was read with, where Was is not nil. Guard: nobody has
	// claimed it, or answered, since. For who changes a message that others may have in hand.
	WasClaim *Claim
	// Step, if it is not nil, is the step that the message is to take: it is noted as parked or dead, unless
	// it stands as something else than that.
	Step *Step
	// Server is the session of the server on which the message was received, as in Intake. Guard, where Was
	// is nil: the effect runs on that session. After a restore, the message comes again, in the order of
	// its key. Empty: any.
	Server string
	// MostRows and MostBytes are how much may be parked of one key. 0: any number.
	MostRows, MostBytes int64
}

// A Claim is how often a message was claimed without an answer, and by which life.
type Claim struct {
	Claims  int
	Session string
}

// Release lets a kept message be tried now, with all its attempts before it: a dead letter is parked again,
// at its place; one that had freed its key, while a message behind it is at a call, behind all of its key. So
// whoever is at a call has nobody before it who could wait for that. The same goes for what takes a place by
// Keep.Instead. Guard: it is kept.
type Requeue struct {
	Consumer string
	Identity
	// Dead: only a dead letter is. Of any other nothing is done, and there is no guard.
	Dead bool
	// DeadAt, where it is not zero, is when it died, as it was read. Guard: it is that dead letter still, not
	// one that was redriven meanwhile and died again.
	DeadAt time.Time
	// Attempts, where it is not nil, is how many it had, as it was read. Guard: it is parked still, with no
	// fewer. So what became a dead letter meanwhile is not released with what is parked, and what somebody
	// else released is not released twice; one that failed once more is.
	Attempts *int
}

// Free ends the keeping of a message; the next of its key is due. Guard: it is kept; with Attempts, if it is
// not nil, parked with so many, and as WasCall says; with DeadAt, that dead letter.
type Finish struct {
	Consumer string
	Identity
	Attempts *int
	// WasCall, where Attempts is not nil, is the key of the call that it is at; "": it is at none. Who read
	// it before a call was intended does not finish it while that is under way.
	WasCall string
	// DeadAt, where it is not zero, is when it died, as it was read. So a dead letter that was redriven
	// meanwhile is not dropped, even if it died again.
	DeadAt time.Time
	// Place, where it is not 0, is where it lies, as it was read. At another one it is not found.
	Place int64
}

// An Audit says who did what to a kept message, and why.
type Audit struct {
	Author, Reason, Action string // "redrive", "release", "drop", "import", "recover"
	Consumer               string
	Identity
	Run string // which redrive it belongs to; "": none

	// Only read.
	Number int64 // in their order
	At     time.Time
	// as whom it was done, as the database knows it; "": that knows no logins, or did not note them then
	Login string
}

// A ClaimSize is how much to claim.
type ClaimSize struct {
	Keys int // the first messages of so many keys, at most
	// Along is how many of those directly behind each of them are read along: they are taken in the
	// transaction of the first, or not at all, so its claim is theirs. None is read behind a message that was
	// claimed before without an answer, or ended its process, or is at a call; and none of those, no dead
	// letter, none of the kinds that are left to others, nor any behind it. If there is no answer to the
	// claim, the next one counts as a claim of theirs, too.
	Prefetch    int
	PrefetchAll int // how many are read along, of all keys
}

// Claimed answers Claim.
type Claimed struct {
	Work   Work     // as it was asked for
	Parked []Parked // by Place. Those that were read along are Waiting
	// Next is when the next one is due, from now; 0: none is, or there may be more now if so many keys were
	// claimed as were asked for.
	Next time.Duration
	// Admitted reports that a message in the consumer's quarantine was admitted, and not taken yet.
	Admitted bool
	// Attended, if Want.Attend is set, answers an Attend of the consumer that only reads.
	Attended Attended
}

// Keeping is how much the store keeps for a consumer. Up to 10,000 each are counted; above that, a store may
// estimate the numbers and bytes. Oldest is always exact.
type Keeping struct {
	Parked, Dead int64
	Bytes        int64         // of keys and payloads of what is parked
	Oldest       time.Duration // since the oldest of them was parked; 0: none is
}

// A Sought says which kept messages are looked for. Zero fields do not matter.
type Sought struct {
	Consumer    string
	Identity    *Identity
	Key         []byte
	Fingerprint string
	Dead        *bool // only dead letters, or none
	Failed      bool  // only those with attempts, or whose last failure is not before the first
	Calling     bool  // only those at a call to the outside
	After       int64 // only with a larger Place
	Bare        bool  // without data and headers
	Limit       int   // at most; default 1,000

	// No index knows these: what is chosen by the fields before them is looked through, at most Scan messages
	// (0: all). Where that ends a list that has less than Limit, Listed.KeptTo says how far it came.
	Topic, Type, Kind string
	DeadFrom, DeadTo  time.Time // only dead letters that died in between, without DeadTo itself
	About             string    // the id, correlation, cause or subject
	Scan              int
}
