// Package store is the interface between Skald and a database. The drivers are the packages memstore,
// sqlitestore and pgstore. Package storetest tests the contract of every driver.
//
// # For services
//
// A service needs only Retention (when rows are deleted), Lock (an entity), Identity (of a message),
// StepState (in inbox.Reply), ErrBusy, and for lists the queries and their List functions.
//
// # For drivers
//
// All other symbols are for drivers, and for wrappers of drivers. Each component of Skald uses one of the
// interfaces: Outbox to write messages, Source for relays, Inbox for consumers, Sagas for engines, Operator
// and Maintainer for operators.
//
// An Intake has everything that a transaction needs before a handler runs. An Effect has everything that one
// unit of work writes. An Effect may have guards: conditions on stored rows. The driver stores an Effect only
// if all its guards hold. Effects are stored in three ways: by Write in a transaction of the caller, by
// Unit.Commit with the COMMIT of a handler's transaction, and by Apply in a new transaction. So a driver can
// send each Effect in one round trip, and a test can simulate a crash between any two Effects.
package store

import (
	"context"
	"time"

	"github.com/skald-go/skald"
)

// Driver is everything that a database provides for Skald. TTx is the type of a transaction: pgx.Tx, *sql.Tx
// or *memstore.Tx. Drivers are safe for concurrent use.
type Driver[TTx any] interface {
	Store
	Outbox[TTx]
	Inbox[TTx]
	Sagas[TTx]
	Tracker[TTx]
}

// Store is the part of a Driver that does not depend on the type of a transaction. Any call may have
// succeeded even if it returns an error; because of the guards, the caller can safely repeat it.
type Store interface {
	Common
	Source
	Claimer
	Operator
	Maintainer
	PayloadSchemas
}

// Common is the part of a Store that every component needs.
type Common interface {
	// Check tests that the tables exist in a version that this build supports, and that the user has the
	// rights of the role. Call it before first use. It returns a *SchemaError or a *RightError. For the role
	// App, Check returns a *MovedError if a sequence returns used numbers. A switch-over by logical
	// replication causes this, because it copies no sequences. Other errors are outages.
	Check(ctx context.Context, as Role) error

	// Secret returns the key of the fingerprints of this database. The key was generated with the tables and
	// never changes.
	Secret(ctx context.Context) ([]byte, error)

	// Database identifies this database: see type Database.
	Database(ctx context.Context) (Database, error)

	// Apply applies the effects in order, in one transaction, and returns a result for each. A false result
	// means that a guard did not hold, so nothing of that effect was stored. The other effects are stored.
	// After an error all results are false, and nothing was stored unless the error is an outage. Apply
	// returns ErrBusy if a concurrent transaction holds a row.
	Apply(ctx context.Context, es ...Effect) ([]bool, error)

	// Outage reports whether an error of this Store or of a Unit is temporary, so that the caller should
	// retry. Examples are a lost connection, an unreachable server, a deadlock, a lock timeout and a busy
	// file. For errors of handlers use Unit.Outage.
	Outage(err error) bool

	// Probe returns nil if the database accepts writes. It sends one statement, on a separate connection if
	// the driver can open one. So Probe succeeds even if handlers use all connections. It also succeeds if
	// the database only waits for another writer. Limit ctx to ProbeWait.
	Probe(ctx context.Context) error

	// Woken returns a channel that the store closes when this process next writes outbox rows or claimable
	// sagas. So a relay or an engine need not poll. After the channel is closed, request a new one. A write
	// into a transaction of the caller closes the channel before the commit, so poll for a while. Woken
	// returns nil if the store cannot notify.
	Woken() <-chan struct{}
}

// ProbeWait is the time limit for one Probe.
const ProbeWait = 2 * time.Second

// Database identifies the database and schema of a store. On PostgreSQL the ID stays the same after a
// restart, a fail-over and a restore of a physical backup. A copy by pg_dump and an upgrade by pg_upgrade
// have another ID. On SQLite a copied file has the ID of the original.
type Database struct {
	ID   string // 16 hexadecimal digits
	Name string // for people
}

// Role is the purpose for which a process uses a store. Each role needs rights that the other does not need.
type Role string

// Roles.
const (
	App   Role = "app"   // writes outbox rows and handles messages
	Relay Role = "relay" // publishes outbox rows and deletes expired rows
)

// Intake has everything that a transaction needs before the handler runs.
type Intake struct {
	// Marks are the marks to insert. An insert waits for a concurrent transaction with the same mark. If an
	// Intake has several marks, only the fresh ones are stored, so that they can be committed. If it has one
	// mark and that mark is not fresh, roll the transaction back.
	Marks []Mark
	// Steps are the steps to take or undo, in an order that the driver chooses. The transaction locks them
	// until its end. It does not change a step that the message may not take. An undo bars a step that is
	// neither done nor in progress. With steps, at most one mark is Retrying, because steps belong to one
	// message.
	Steps []Step
	Locks []Lock // entities to lock, in an order that the driver chooses; missing ones are created
	// Sagas are the sagas to lock until the transaction ends, in an order that the driver chooses. A saga
	// with another version is not locked.
	Sagas []SagaRef
	// Settings apply to the rest of this transaction, beginning with the handler. Examples are a tenant for
	// row-level security and a role. A driver without settings returns ErrNoSettings.
	Settings []Setting
	// Server is the required server session, as SyncConsumer returned it. On another session Begin returns
	// ErrLost, because data that the caller read may be missing there. Empty allows any session.
	Server string
	// Isolation is the isolation level of the transaction. Above ReadCommitted, conflicts return an error for
	// which Collided is true. A driver without that level returns ErrNoIsolation. Enter ignores Isolation,
	// because its transaction has already begun.
	Isolation Isolation
	// Wait limits the wait for concurrent transactions. After that time Begin returns ErrBusy. 0 means 5 s.
	Wait time.Duration
	// Handle is the maximum time for which the handler may leave the transaction idle. After that time the
	// database ends the transaction, so that a paused process does not hold its mark forever. 0 means 60 s.
	Handle time.Duration
}

// Setting is a database setting for a transaction, for example the name "app.tenant" with the value "42".
type Setting struct{ Name, Value string }

// Identity identifies a message forever. If an ID is long or the store cannot store it unchanged, the store
// may return another name for it. Callers may use that name in place of the ID.
type Identity struct{ Source, ID string }

// Mark records that a consumer has finished a message.
type Mark struct {
	Consumer string
	Identity
	Outcome Outcome // Done, Rejected or Barred
	Reason  string  // of a rejection, cut to 1 KiB

	// Fingerprint is an HMAC of the content of the message, with the key that Secret returns. 0 means not
	// known.
	Fingerprint int64
	Code        int32  // the code of the handler's answer; not known in an Intake
	Result      string // the data of the answer, encoded by the caller, stored unchanged
	Emitted     string // the messages that the handler wrote with the answer, encoded by the caller
	Headers     string // metadata of Result, encoded by the caller; for HTTP the headers
	// Keep is the retention of this mark from now, by the store's clock; 0 means the general retention of
	// marks. After Keep, an ID without a timestamp is fresh again, even before Maintain has run. For an ID
	// with a timestamp, the mark counts until Maintain deletes it; then the message is TooOld.
	Keep time.Duration
	// Held reports that Skald itself has stored the message since it arrived, parked or dead. Such a message
	// is never TooOld.
	Held bool

	KeyOrder KeyOrder // the required order of its key; default Anytime
	Key      []byte   // the key of the message, for KeyOrder; nil for a message without a key
	Attempts int      // number of attempts of the message at its claim, for Retrying
}

// Lock identifies an entity, which is anything that a handler locks, such as an account. The first lock of an
// entity creates its row.
type Lock struct {
	Space, Key string
	// Version, in an Effect, is a guard: the required version of the locked entity. Each committed
	// transaction or effect that locks an entity raises its version by one, so the version is a fencing
	// token.
	Version int64
}

// Found is the result of an Intake. Each list has the order of the list in the Intake.
type Found struct {
	Marks []Verdict
	Steps []Step  // their states before the Intake; for a step that it takes, only State is set
	Locks []int64 // the new version of each entity; 1 for a new entity
	Sagas []bool  // false if the saga has another version and so is not locked
	// Follows reports that the Unit may begin the next Unit in the round trip of its commit: see
	// Unit.CommitThen.
	Follows bool
}

// Verdict is the stored result of a message.
type Verdict struct {
	Outcome     Outcome
	Reason      string
	Fingerprint int64 // of the stored mark; 0 if not known
	Code        int32
	Result      string
	Emitted     string
	Headers     string
	// Left is the remaining time of Mark.Keep, by the store's clock; 0 for a mark without Keep. Negative
	// means that Keep has ended; only an ID with a timestamp gets its answer then.
	Left time.Duration
}

// Outcome is the result of a message at a consumer. Its numbers are stored.
type Outcome int16

// Outcomes.
const (
	Fresh    Outcome = iota // not finished by this consumer; never stored
	Done                    // its effect is committed
	Rejected                // its handler rejected it permanently
	Barred                  // its step was undone before it arrived
)

// Outcomes that are returned but never stored with a mark. The last four concern parked messages and dead
// letters.
const (
	// TooOld means that the message has no mark, and that it is so old that retention may have deleted the
	// mark.
	TooOld   Outcome = -1 - iota
	Conflict         // the mark belongs to another payload; callers compare the fingerprints
	Waiting          // the message is parked
	Dead             // the message is a dead letter
	Behind           // other messages of its key are parked
	Stale            // the message was claimed, but its row has changed since the claim
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

// Effect has everything that one unit of work writes. If all its guards hold, the store writes all of it,
// otherwise nothing.
type Effect struct {
	Mark *Mark // inserts the mark. Guard: the mark does not exist, and the message is not too old
	// Step stores State, Code and Result. Guard: the stored state is in From and, if the step was taken, this
	// message took it.
	Step  *Step
	Locks []Lock          // locks entities. Guard: Version, if it is not 0
	Rows  []skald.Message // writes messages to the outbox. Their Source is that of the database
	Shard *Progress       // stores the progress of a relay. Guard: the epoch and token of the shard

	Answer     *Mark        // stores an answer. Guard: the mark is done and has no answer yet
	Quarantine *Quarantined // does not change an existing message with the same fingerprint
	Admitted   *Quarantined // takes a message. Guard: it is admitted and not taken
	Admit      *Admit       // admits a message. Guard: it is in the quarantine and not admitted
	// Reservation releases the key. Guard: the key is still reserved by its Token.
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
	Tracked []Tracked   // rows to store. LockTracked must have locked them in the same transaction
	// Definitions are definitions of sagas to store, with the current time as Noted, so that operators and
	// other builds can read them. A new definition gets a Number, which never changes.
	Definitions []SagaDefinition
}

// Progress is the progress that a relay stores for a shard that it owns.
type Progress struct {
	Shard int
	Epoch int64
	Token string // guard, with Epoch: as Lease returned them

	Cursor      *Cursor // nil leaves it unchanged
	Incarnation *string // of the broker; nil leaves it unchanged

	// Deferred are rows to defer. If a row is already deferred, the store only updates its Attempts, Why and
	// Due. If a row has Attempts above 1 and is not deferred, an operator dropped it, and the store does not
	// defer it again.
	Deferred []DeferredRow
	Freed    []int64 // sequence numbers of deferred rows that are now published
}

// Buckets is the number of buckets. The hash of a key selects its bucket; a shard is a range of buckets.
const Buckets = 1024

// Shard is a range of buckets that one relay at a time publishes.
type Shard struct {
	ID          int
	First, Last int   // its buckets, both included
	Epoch       int64 // grows with each owner
	Token       string
	Cursor      Cursor
	Incarnation string // of the broker that acknowledged the rows up to Cursor; "" at first
}

// Cursor is the position of a shard. The relay has published all rows up to the tick Base. If Tip is neither
// "" nor Base, a window from Base to Tip is open. The relay has also published its rows up to the sequence
// number Seq. Rows of a window are in the order of their sequence numbers. Each driver defines its ticks; ""
// is the beginning.
type Cursor struct {
	Base, Tip string
	Seq       int64
}

// LeaseRequest is one heartbeat of a relay. It renews the shards of the relay, takes free shards and releases
// others.
type LeaseRequest struct {
	Owner string // the stable name of the relay
	// Session is random for each run. A new session immediately replaces an earlier one of the same Owner.
	Session string
	TTL     time.Duration // the maximum time between two heartbeats, after which shards are free. Default 3 s
	Wait    time.Duration // the same for a standby, which has no shard. Default TTL
	Release []int         // shards to release now
	Leave   bool          // release all shards and unregister the relay

	// BrokerAway is the time since the relay last reached its broker; 0 means that it reaches the broker.
	BrokerAway time.Duration
	// Yield releases the shards for relays that reach their broker. While another live relay does, Share is 0
	// and this relay takes no shard. Otherwise Yield has no effect, so that an outage of the broker moves no
	// shards.
	Yield bool

	// LastKnown has the shards that the relay owned when the store failed, with their last ticks. If the
	// database has one of these shards with a smaller epoch, or with the same epoch and token but without the
	// tick, it was restored to an earlier state. Then the store records this, and returns a *MovedError until
	// Recover.
	LastKnown []Shard

	// SnapshotBase is the snapshot after which to look for new rows, "" for the beginning. Leased.Tip is the
	// result, as of Snapshot. nil does not look.
	SnapshotBase *string
}

// Leased is the result of Lease.
type Leased struct {
	Shards   []Shard // all shards of the relay, also those that it took now
	Share    int     // number of shards that the relay should own; the relay must release the others
	Sessions int     // number of live relays that may own shards, at most the number of shards

	Waiting int // number of standbys, because there are as many relays as shards; includes this relay
	// Tip is the newest snapshot, or LeaseRequest.SnapshotBase if there are no new rows. It is empty without
	// LeaseRequest.SnapshotBase.
	Tip string

	// Timeline, if not 0, is a new timeline of the server: it failed over since the last Lease of any relay.
	Timeline int
}
