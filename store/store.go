// Package store is the interface to the database. It has interfaces by role (Outbox, Source for relays,
// Inbox, Operator, Maintainer), plain data, errors, and short functions that unpack results. Packages
// memstore, sqlitestore and pgstore are the drivers; storetest tests the contract of every driver.
//
// An Intake is everything that a transaction needs before a handler runs. An Effect is everything that one
// unit of work writes. It is stored only if each of its guards holds. Effects are sent in three ways: Write
// (in the caller's transaction), Unit.Commit (all or nothing, with the COMMIT) and Apply (one commit, one
// result each). So a driver can send each Effect in one round trip, and a test can simulate a crash between
// any two of them.
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
	// rights of the role. It returns a *SchemaError or a *RightError. For the role App, Check returns a
	// *MovedError if a sequence returns numbers that are already used. A logical switch-over causes this,
	// because it copies no sequences. Other errors are outages.
	Check(ctx context.Context, as Role) error

	// Secret returns the key of this database's fingerprints. It was generated with the tables and never
	// changes.
	Secret(ctx context.Context) ([]byte, error)

	// Database identifies this database: see type Database.
	Database(ctx context.Context) (Database, error)

	// Apply applies the effects in order, in one transaction, with a result each. A false result means that a
	// guard was lost and nothing of that effect was stored. The other effects are stored. An error fails the
	// whole call: all results are false, and nothing was stored unless the error is an outage. ErrBusy means
	// that a concurrent transaction holds a row.
	Apply(ctx context.Context, es ...Effect) ([]bool, error)

	// Outage reports whether an error of this Store or of a Unit is an outage, so that the caller should
	// retry. Examples are a lost connection, an unreachable server, a deadlock, a lock timeout and a busy
	// file. For errors of handlers use Unit.Outage.
	Outage(err error) bool

	// Probe returns nil if the database answers and can be written. It sends one statement, on a connection
	// of its own if the driver can open one. So Probe succeeds even if handlers use all connections. It also
	// succeeds if the database only waits for another writer. Limit ctx to ProbeWait.
	Probe(ctx context.Context) error

	// Woken returns a channel that is closed at the next write or commit in this process. Only writes of rows
	// and of claimable sagas count. So a relay or an engine need not poll. After the channel is closed,
	// request a new one. A write into the caller's transaction closes the channel before the commit, so poll
	// for a while. Nil means that the store cannot notify.
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

// Role is the purpose for which a process uses a store. Each role needs rights that the other does not need.
type Role string

// Roles.
const (
	App   Role = "app"   // writes rows, records and finishes messages
	Relay Role = "relay" // publishes rows and deletes old ones
)

// Intake is everything that a transaction needs before the handler runs.
type Intake struct {
	// Marks are inserted. An insert waits for a concurrent transaction that has the same mark. Of several
	// marks, only fresh ones are stored, so that they can be committed. If the only mark is not fresh, roll
	// the transaction back.
	Marks []Mark
	// Steps are taken or undone, in an order that the driver chooses, and locked until the transaction ends.
	// A step that may not be taken stays unchanged. An undo bars a step that is neither done nor in progress.
	// With steps, at most one mark is Retrying, because steps belong to one message.
	Steps []Step
	Locks []Lock // entity rows to lock or create, in an order that the driver chooses
	// Sagas that have the given version are locked until the transaction ends, in an order that the driver
	// chooses.
	Sagas []SagaRef
	// Settings apply to this transaction from the handler on, in their order: for example a tenant for
	// row-level security, or a role. A driver without settings returns ErrNoSettings.
	Settings []Setting
	// Server is the required server session, as SyncConsumer returned it. On another session the result is
	// ErrLost, because data that the caller read may be missing there. Empty allows any session.
	Server string
	// Isolation of the transaction. Above ReadCommitted, conflicts fail with an error for which Collided is
	// true. A driver without that level returns ErrNoIsolation. Enter ignores it, because its transaction has
	// begun.
	Isolation Isolation
	// Wait limits the wait for concurrent transactions. After that time the result is ErrBusy. 0 means 5 s.
	Wait time.Duration
	// Handle is the time for which the handler may leave the transaction idle. After that time the database
	// ends the transaction, so that a paused process does not hold its mark forever. 0 means 60 s.
	Handle time.Duration
}

// Setting is a name and a value, for example "app.tenant" and "42".
type Setting struct{ Name, Value string }

// Identity identifies a message, forever. A store may replace an ID that is long, or that it cannot store
// unchanged, by another name. Callers may use that name in place of the ID.
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
	// Keep is the time for which the mark is kept from now, by the store's clock, if its scope has its own
	// retention. After that time, a key without a timestamp is fresh even before Maintain has run. For an ID
	// with a timestamp, the mark counts until it is deleted. After that, the consumer's floor applies. 0
	// means the general retention of marks.
	Keep time.Duration
	// Held reports that Skald itself has stored the message since it arrived, parked or dead. No floor
	// applies to it.
	Held bool

	KeyOrder KeyOrder // the requirement on the order of its key; default Anytime
	Key      []byte   // of the message, for KeyOrder; nil if it has none
	Attempts int      // number with which the message was claimed, for Retrying
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
	Steps []Step  // their states before; for a step that this Intake takes, only State is set
	Locks []int64 // the version that this transaction gives the entity; 1 for a new entity
	Sagas []bool  // false if the saga has another version and so is not locked
	// Follows reports that the Unit can begin the next Unit in the round trip of its commit. See
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
	// Left is the remaining time of Mark.Keep, by the store's clock. Negative means that this time is over;
	// an ID with a timestamp still gets the answer. 0 means that the scope has no retention of its own.
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
	// TooOld means that there is no mark, and that the message is older than the consumer's floor. So its
	// mark may have been deleted.
	TooOld   Outcome = -1 - iota
	Conflict         // the mark belongs to another payload; callers compare the fingerprints
	Waiting          // it is parked
	Dead             // it is a dead letter
	Behind           // other messages of its key are parked
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

// Effect is everything that one unit of work writes. Either all of it is stored, or nothing if one of its
// guards does not hold.
type Effect struct {
	Mark *Mark // guard: there is no mark, and the message is not too old
	// Step has a guard: the stored state is in From and, if the step was taken, this message took it. The
	// effect stores State, Code and Result.
	Step  *Step
	Locks []Lock          // guard: Version, if it is not 0
	Rows  []skald.Message // into the outbox. Source is always the database's own
	Shard *Progress       // guard: the shard's epoch and token

	Answer     *Mark        // guard: the mark is done and has no answer yet; stores the answer
	Quarantine *Quarantined // an existing one with the same fingerprint stays unchanged
	Admitted   *Quarantined // guard: admitted and not taken; becomes taken
	Admit      *Admit       // guard: in quarantine and not admitted; becomes admitted
	// Reservation has a guard: the key is still reserved by its Token. The effect frees the key.
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

	// Deferred are rows to defer. If a row is deferred already, only its Attempts, Why and Due are updated. A
	// row with Attempts above 1 that is not deferred was dropped, and stays dropped.
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
	Wait    time.Duration // how long the relay counts as waiting if no shard is free. Default TTL
	Release []int         // shards to release now
	Leave   bool          // release all shards and delete the relay's row

	// BrokerAway is the time for which the relay's broker has been unreachable; 0 means that the broker
	// answers. Other relays can give their shards to a relay with a reachable broker.
	BrokerAway time.Duration
	// Yield gives the shards to other relays. While the broker of another live relay answers, Share is 0 and
	// this relay takes no shard. Otherwise the relay counts like any other, so that an outage of the broker
	// moves no shard.
	Yield bool

	// LastKnown has the shards that the relay owned when the store failed, with their last ticks. The
	// database went back in time if it has one of these shards with a smaller epoch, or with the same epoch
	// and token but without the tick. The store then records this, and returns a *MovedError until Recover.
	LastKnown []Shard

	// SnapshotBase is the snapshot after which to look for new rows, "" for the beginning; nil does not look.
	// Leased.Tip is the result. See Snapshot.
	SnapshotBase *string
}

// Leased is the result of Lease.
type Leased struct {
	Shards   []Shard // all shards of the owner, those that it had before and those that it took now
	Share    int     // number of shards that the relay should own; it releases the others
	Sessions int     // live relays that may own shards: at most as many as there are shards

	Waiting int // relays that wait because there are as many relays as shards, including this one
	// Tip is the newest snapshot, or LeaseRequest.SnapshotBase if there are no new rows; empty without
	// LeaseRequest.SnapshotBase
	Tip string

	// Timeline, if not 0, is the server's new timeline, because the server failed over since a relay last
	// called Lease.
	Timeline int
}
