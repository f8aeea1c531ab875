// Package store is the interface to the database. It has interfaces by role (Outbox, Source for relays,
// Inbox, Operator, Maintainer), plain data, errors, and short functions that unpack results. Packages
// memstore, sqlitestore and pgstore are the drivers; storetest tests the contract of every driver.
//
// An Intake is everything that a transaction needs before a handler runs. An Effect is everything that one
// step writes; it is stored only if each of its guards holds. Effects are sent in three ways: Write (in the
// caller's transaction), Unit.Commit (all or nothing, with the COMMIT) and Apply (one commit, one result
// each). So a driver can send each in one round trip, and a test can simulate a crash between any two.
//
// # For services
//
// A service needs Retention (how long rows are kept), Lock (an entity), Identity (of a message), StepState
// (in inbox.Reply), ErrBusy, and for lists the queries and their List functions.
//
// # For drivers
//
// All other symbols are for drivers, and for wrappers of drivers.
package store

import (
	"context"
	"time"

	"github.com/skald-go/skald"
)

// Driver is everything that a database provides; each component uses only its own roles. TTx is pgx.Tx,
// *sql.Tx or *memstore.Tx. Drivers are safe for concurrent use.
type Driver[TTx any] interface {
	Store
	Outbox[TTx]
	Inbox[TTx]
	Sagas[TTx]
	Tracker[TTx]
}

// Store is a Driver without the calls that use or begin a handler's transaction. Any call may have taken
// effect even if it returns an error; guards make a repeat harmless.
type Store interface {
	Common
	Source
	Claimer
	Operator
	Maintainer
	PayloadSchemas
}

// Common is the part that every component needs.
type Common interface {
	// Check tests, before first use, that the tables exist, in a version that this build supports, with the
	// rights of the role. It returns a *SchemaError or a *RightError. For App it returns a *MovedError if a
	// sequence returns used numbers. This happens after a logical switch-over, which copies no sequences.
	// Other errors are outages.
	Check(ctx context.Context, as Role) error

	// Secret returns the key of this database's fingerprints. It was generated with the tables and never
	// changes.
	Secret(ctx context.Context) ([]byte, error)

	// Database identifies this database: see type Database.
	Database(ctx context.Context) (Database, error)

	// Apply applies the effects in order, in one transaction, with a result each. A false result means that a
	// guard was lost and nothing of that effect was stored; the others are. An error fails the whole call:
	// all results are false, and nothing was stored unless the error is an outage. ErrBusy means that a
	// concurrent transaction holds a row.
	Apply(ctx context.Context, es ...Effect) ([]bool, error)

	// Outage reports whether an error of this Store or of a Unit is nobody's fault, so that the caller should
	// retry. Examples are a lost connection, an unreachable server, a deadlock, a lock timeout and a busy
	// file. For errors of handlers use Unit.Outage.
	Outage(err error) bool

	// Probe returns nil if the database answers and can be written. It sends one statement, on a connection
	// of its own if the driver can open one. So handlers that use all connections do not look like an outage.
	// A database that only waits for another writer is no outage, either. Limit ctx to ProbeWait.
	Probe(ctx context.Context) error

	// Woken returns a channel that is closed at the next write or commit in this process. Only writes of rows
	// and of claimable sagas count. So a relay or an engine need not poll. After it is closed, request a new
	// one. A write into the caller's transaction closes it before the commit: poll for a while. Nil means
	// that the store cannot notify.
	Woken() <-chan struct{}
}

// ProbeWait limits one Probe.
const ProbeWait = 2 * time.Second

// Database identifies the database and schema of a store. On PostgreSQL the ID survives a restart, a
// fail-over and a physical backup; a copy by pg_dump or an upgrade by pg_upgrade has another one. On SQLite a
// copied file keeps the ID of the original.
type Database struct {
	ID   string // 16 hexadecimal digits
	Name string // for people
}

// Role is the purpose for which a process uses a store. Each role has rights that the other does not need.
type Role string

// Roles.
const (
	App   Role = "app"   // writes rows, records and finishes messages
	Relay Role = "relay" // publishes rows and deletes old ones
)

// Intake is everything that a transaction needs before the handler runs.
type Intake struct {
	// Marks are inserted; each waits for a concurrent transaction that has it. Of several marks, only fresh
	// ones are stored, so that they can be committed. If a single mark is not fresh, roll the transaction
	// back.
	Marks []Mark
	// Steps are taken or undone, and locked until the transaction ends, in an order that the driver chooses.
	// A step that may not be taken stays unchanged. An undo bars a step that is neither done nor in progress.
	// With steps, at most one mark is Retrying, because steps belong to one message.
	Steps []Step
	Locks []Lock // entity rows, locked or created, in an order that the driver chooses
	// Sagas are locked until the transaction ends, in an order that the driver chooses, if they have the
	// given version.
	Sagas []SagaRef
	// Settings apply to this transaction from the handler on, in their order: for example a tenant for
	// row-level security, or a role. A driver without settings returns ErrNoSettings.
	Settings []Setting
	// Server is the required server session, as SyncConsumer returned it. On another one the result is
	// ErrLost: data that the caller read may be missing there. Empty allows any.
	Server string
	// Isolation of the transaction. Above ReadCommitted, conflicts fail with an error for which Collided is
	// true. A driver without that level returns ErrNoIsolation. Enter ignores it, because its transaction has
	// begun.
	Isolation Isolation
	// Wait limits the wait for concurrent transactions; then ErrBusy. 0 means 5 s.
	Wait time.Duration
	// Handle is how long the handler may leave the transaction idle before the database ends it. So a paused
	// process does not hold its mark forever. 0 means 60 s.
	Handle time.Duration
}

// Setting is a name and a value, for example "app.tenant" and "42".
type Setting struct{ Name, Value string }

// Identity identifies a message, forever. A store may replace a long one, or one that it cannot store
// unchanged, by another name; callers may use that in its place.
type Identity struct{ Source, ID string }

// Mark records that a consumer has finished a message.
type Mark struct {
	Consumer string
	Identity
	Outcome Outcome // Done, Rejected or Barred
	Reason  string  // of a rejection, cut to 1 KiB

	// Fingerprint is an HMAC of the message's content, with the key that Secret returns. 0 means not known.
	Fingerprint int64
	Code        int32  // the handler's answer, with Result; not known in an intake
	Result      string // encoded by the caller, stored unchanged
	Emitted     string // the messages emitted with the answer, encoded by the caller
	Headers     string // metadata of Result, encoded by the caller; for HTTP the headers
	// Keep is how long the mark is kept from now, by the store's clock, if its scope has a retention of its
	// own. After that, a key without a timestamp is fresh even before Maintain has run. For an ID with a
	// timestamp, the mark counts until it is deleted; then the floor applies. 0 means the general retention
	// of marks.
	Keep time.Duration
	// Held reports that Skald itself has stored the message since it arrived, parked or dead. No floor
	// applies to it.
	Held bool

	KeyOrder KeyOrder // the requirement on the order of its key; default Anytime
	Key      []byte   // of the message, for KeyOrder; nil if it has none
	Attempts int      // that it was claimed with, for Retrying
}

// Lock identifies an entity. Its row is created when it is first locked.
type Lock struct {
	Space, Key string
	// Version, in an Effect, is the guard: the required version of the locked entity. Each committed unit or
	// effect that locks an entity raises its version by one, so the version is a fencing token.
	Version int64
}

// Found is the result of an Intake, index by index.
type Found struct {
	Marks []Verdict
	Steps []Step  // as they were before; for a step that is now taken, only State
	Locks []int64 // the version that this transaction gives the entity: 1 if it is new
	Sagas []bool  // false if it has another version and is not locked
	// Follows reports that the Unit can begin the next one in the round trip of its commit. See
	// Unit.CommitThen.
	Follows bool
}

// Verdict is the stored result of a message.
type Verdict struct {
	Outcome     Outcome
	Reason      string
	Fingerprint int64 // as stored; 0 if there is none
	Code        int32
	Result      string
	Emitted     string
	Headers     string
	// Left is the rest of Mark.Keep, by the store's clock. Negative means that it is over. An ID with a
	// timestamp still gets the answer. 0 means that its scope has no retention of its own.
	Left time.Duration
}

// Outcome is the result of a message at a consumer. Its numbers are stored.
type Outcome int16

// Outcomes.
const (
	Fresh    Outcome = iota // not finished by this consumer; never stored
	Done                    // its effect is committed
	Rejected                // its handler rejected it for good
	Barred                  // its step was undone before it arrived
)

// Outcomes that are returned but never stored with a mark. The last four concern parked messages and dead
// letters.
const (
	// TooOld: there is no mark, and the message is older than the consumer's floor, so its mark may be
	// deleted.
	TooOld   Outcome = -1 - iota
	Conflict         // a mark of another payload; callers compare the fingerprints
	Waiting          // it is parked
	Dead             // it is a dead letter
	Behind           // others of its key are parked
	Stale            // Retrying, but its row has changed since the claim
)

func (o Outcome) String() string {
	switch o {
	case Fresh:
		return "fresh"
	case Done:
		return "done"
	case Rejected:
		return "rejected"
	case Barred:
		return "barred"
	case TooOld:
		return "too old"
	case Conflict:
		return "conflict"
	case Waiting:
		return "parked"
	case Dead:
		return "dead"
	case Behind:
		return "behind"
	case Stale:
		return "stale"
	}
	return "unknown"
}

// Effect is everything that one step writes. All of it is stored, and only if each of its guards holds.
type Effect struct {
	Mark *Mark // guard: there is no mark, and the message is not too old
	// Step has a guard: its state is in From and, if it was taken, it was taken by this message. State, Code
	// and Result are stored.
	Step  *Step
	Locks []Lock          // guard: Version, if it is not 0
	Rows  []skald.Message // into the outbox. Source is always the database's own
	Shard *Progress       // guard: the shard's epoch and token

	Answer     *Mark        // guard: the mark is done and not answered. Stores its answer
	Quarantine *Quarantined // an existing one with the same fingerprint stays unchanged
	Admitted   *Quarantined // guard: admitted and not taken. It becomes taken
	Admit      *Admit       // guard: in quarantine and not admitted. It becomes admitted
	// Reservation has a guard: its Token still has the key reserved. The key becomes free.
	Reservation *Reservation

	Park    *Park    // guards: see Park
	Requeue *Requeue // guard: the message is parked or dead
	Finish  *Finish  // guards: see Finish
	Rewind  *Rewind  // guard: the checkpoint exists, has this origin, and is at a later position
	Control *Control
	// DropDeferred has a guard: see type DropDeferred.
	DropDeferred *DropDeferred
	Audit        *Audit

	Saga    *SagaUpdate // guard: its version
	Tracked []Tracked   // rows that LockTracked locked in the same transaction
	// Definitions of sagas are stored with the current time as Noted, so that operators and other builds can
	// read them. A new one gets a Number, which never changes.
	Definitions []SagaDefinition
}

// Progress is the progress that a relay stores for a shard that it owns.
type Progress struct {
	Shard int
	Epoch int64
	Token string // guard, with Epoch: as Lease returned them

	Cursor      *Cursor // nil leaves it unchanged
	Incarnation *string // of the broker; nil leaves it unchanged

	// Deferred are rows to defer. An already deferred row gets their Attempts, Why and Due. A row with
	// Attempts above 1 that is not deferred was dropped; it stays dropped.
	Deferred []DeferredRow
	Freed    []int64 // sequence numbers of deferred rows that are now published
}

// Buckets is the number of buckets that keys are hashed into. Shards are ranges of buckets.
const Buckets = 1024

// Shard is a range of buckets that one relay at a time publishes.
type Shard struct {
	ID          int
	First, Last int   // its buckets, both included
	Epoch       int64 // raised with each owner
	Token       string
	Cursor      Cursor
	Incarnation string // of the broker that acknowledged up to Cursor; "" at first
}

// Cursor is the position of a shard. All rows up to the tick Base are acknowledged. A window from Base to Tip
// is open if Tip is neither "" nor Base. Its rows up to the sequence number Seq are acknowledged, too. Rows
// of a window are in the order of their sequence numbers. Each driver defines its ticks; "" is the beginning.
type Cursor struct {
	Base, Tip string
	Seq       int64
}

// LeaseRequest is one heartbeat of a relay: it renews its shards, takes free ones and releases others.
type LeaseRequest struct {
	Owner string // the instance's stable name
	// Session is random for each run: a new session replaces an earlier one of the same Owner immediately.
	Session string
	TTL     time.Duration // the lease: the maximum time between two heartbeats. Default 3 s
	Wait    time.Duration // how long it counts as waiting if there is no shard for it. Default TTL
	Release []int         // shards to release now
	Leave   bool          // release all shards and delete the relay's row

	// BrokerAway is how long its broker has been unreachable; 0 means that the broker answers. Other relays
	// can give their shards to a relay with a reachable broker.
	BrokerAway time.Duration
	// Yield gives the work away: while another live relay's broker answers, Share is 0 and no shard is taken.
	// Otherwise the relay counts as any other, so that an outage of the broker moves no shard.
	Yield bool

	// LastKnown has the shards that the relay owned when the store failed, with their last ticks. The
	// database went back in time if it has one of them with the same epoch and token but without its tick, or
	// with a smaller epoch. It then records this, and returns a *MovedError until Recover.
	LastKnown []Shard

	// SnapshotBase is the snapshot after which to look for new rows, "" for the beginning; nil does not look.
	// Leased.Tip is the result. See Snapshot.
	SnapshotBase *string
}

// Leased is the result of Lease.
type Leased struct {
	Shards   []Shard // all that the owner has now, both old and newly taken
	Share    int     // how many shards it should own, so that every live relay has some; release the rest
	Sessions int     // live relays that may own shards: at most as many as there are shards

	Waiting int // relays that wait because there are as many relays as shards, including this one
	// Tip is the newest snapshot, or LeaseRequest.SnapshotBase if there are no new rows; empty without
	// LeaseRequest.SnapshotBase
	Tip string

	// Timeline, if not 0, is the server's new timeline: it failed over since a relay last called Lease.
	Timeline int
}
