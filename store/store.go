// Package store is the seam to the database: what a step reads and writes, as data. Interfaces by role
// (Outbox, Source for relays, Inbox, Operator, Steward), plain data and errors; no behaviour but short
// functions that unpack an answer. Drivers stand beside it (memstore, sqlitestore, pgstore); storetest holds
// what every driver promises.
//
// An Intake is all that is needed before a handler runs; an Effect is all that one step leaves behind, and
// stands only if every guard in it holds. Effects are sent three ways: Write (the caller's transaction),
// Unit.Commit (all or nothing, with the COMMIT) and Apply (one commit, a result each). A driver can therefore
// send each in one round trip, and an explorer can crash between any two.
package store

import (
	"context"
	"time"

	"github.com/skald-go/skald"
)

// A Driver is all that a database does: the roles of all stations, which each take theirs alone. TTx is
// pgx.Tx, *sql.Tx or *memstore.Tx. Drivers are safe for concurrent use.
type Driver[TTx any] interface {
	Store
	Outbox[TTx]
	Inbox[TTx]
	Sagas[TTx]
	Tracker[TTx]
}

// A Store is a Driver without the calls that touch a transaction of the caller's or lend one. Any call may
// have taken effect though it returned an error; the guards make the repeat harmless.
type Store interface {
	Common
	Source
	Taker
	Operator
	Steward
	PayloadSchemas
}

// Common is what every station needs.
type Common interface {
	// Check tells, before first use, whether the tables are there, in a version that this build can use, with
	// the rights that as needs: a *SchemaError or *RightError, a *MovedError for App where the database gives
	// out numbers that are taken (as behind a logical switch-over, which copies no sequences), else an
	// outage.
	Check(ctx context.Context, as Role) error

	// Secret is the key of this database's fingerprints. It was drawn when the tables were made, and stays.
	Secret(ctx context.Context) ([]byte, error)

	// Database names this database among others: see Database.
	Database(ctx context.Context) (Database, error)

	// Apply carries out the effects in order, in one transaction, with a result each. False: a guard of it
	// was lost and nothing of it stands; the others do. An error fails the whole call: all results are false,
	// and nothing stands unless the error is an outage. ErrBusy: a rival holds a row that it would change.
	Apply(ctx context.Context, es ...Effect) ([]bool, error)

	// Outage tells of an error that a call of this Store, or of a Unit of it, has returned whether it is
	// nobody's fault and worth the same try again: a lost connection, a server that is away, a deadlock, a
	// lock that was not to be had, a busy file. It is not to be asked about errors of handlers: see
	// Unit.Outage.
	Outage(err error) bool

	// Probe asks the database whether it answers and can be written: nil if so. It sends one statement on a
	// connection of its own where the driver can open one, so that handlers that hold all connections are no
	// outage. A database that only waits for another writer is none, either. Bound ctx by ProbeWait.
	Probe(ctx context.Context) error

	// Woken is closed at the next write or commit, in this process, of rows, or of sagas that any engine may
	// claim, so that a relay or an engine need not poll for it; then ask for a new one. A write into the
	// caller's transaction wakes before its commit: look for a while. Nil: the store does not know of writes.
	Woken() <-chan struct{}
}

// ProbeWait bounds one Probe.
const ProbeWait = 2 * time.Second

// A Database names the database that a store is in, and the schema there. A restart, a fail-over and a
// physical backup keep the ID of PostgreSQL; a copy by pg_dump and an upgrade by pg_upgrade get another one.
// A copy of a SQLite file has the ID of its original.
type Database struct {
	ID   string // 16 hexadecimal digits
	Name string // for people
}

// A Role is what a process does with a store. Each needs rights of its own, and none of the other's.
type Role string

// Roles.
const (
	App   Role = "app"   // writes rows, takes in and finishes messages
	Relay Role = "relay" // carries rows to the broker and empties what is old
)

// An Intake is what is needed before the handler.
type Intake struct {
	// Marks are inserted, each waiting for a rival that has it in hand. Of several, those that are not fresh
	// are not there, so that the others may be committed; a single one that is kept is for rolling back.
	Marks []Mark
	// Steps are taken or undone, and locked until the transaction ends, in an order that the driver chooses.
	// One that may not be taken stays as it is; one that is not done, or under way, is barred by whoever
	// would undo it. With steps, at most one mark is Retrying: a message's steps are its own.
	Steps []Step
	Locks []Lock // entity rows, locked or created, in an order that the driver chooses
	// Sagas are locked until the transaction ends, in an order that the driver chooses, if they stand as they
	// are named.
	Sagas []SagaRef
	// Settings of the database hold for this transaction, from the handler on, in their order: a tenant for
	// row-level security, a role. A driver whose database has none refuses them with ErrNoSettings.
	Settings []Setting
	// Server is the session of the server that is meant, as Attend told it: on another one ErrLost, since
	// what the caller knows may not be there. Empty: any.
	Server string
	// Isolation of the transaction. Above ReadCommitted what collides fails by an error that Collided tells
	// of. A driver that cannot have it refuses it with ErrNoIsolation. Enter does not look at it: the
	// transaction is begun.
	Isolation Isolation
	// Wait bounds the waiting for rivals, at most; then ErrBusy. 0: 5 s.
	Wait time.Duration
	// Handle is how long the handler may leave the transaction idle before the database ends it, so that a
	// paused instance does not hold its mark for ever. 0: 60 s.
	Handle time.Duration
}

// A Setting is a name and a value, "app.tenant" and "42".
type Setting struct{ Name, Value string }

// Identity is what a message is, for ever. A store may tell a long one, or one that it cannot hold as it is,
// by another name: whoever comes back with that means the same.
type Identity struct{ Source, ID string }

// A Mark says that a consumer has finished a message.
type Mark struct {
	Consumer string
	Identity
	As     Outcome // Done, Rejected or Barred
	Reason string  // of a rejection; at most 1 KiB, longer ones are cut

	// Fingerprint is an HMAC of what came under the identity, by the key that Secret gives. 0: not known.
	Fingerprint int64
	Code        int32  // what the handler answers, and Result: in an intake they are not known yet
	Result      string // encoded; as it is
	Emitted     string // what the station said with it, as it encoded that
	Headers     string // what else goes with Result, as the station encoded it: of HTTP, the headers
	// Keep is how long the mark stands from now, by the store's clock, where its scope has a retention of its
	// own: then a key that tells no time is fresh, whether or not Maintain has been there. Of an id that
	// tells its time the mark counts as long as it is there, then the floor does. 0: as long as marks are
	// kept.
	Keep time.Duration
	// Held: Skald itself held the message since it came, parked or dead. No floor counts against it.
	Held bool

	KeyOrder KeyOrder // what the order of its key asks; default Anytime
	Key      []byte   // of the message, for Turn; nil: it has none
	Attempts int      // that it was claimed with, for Retrying
}

// A Lock names an entity. The row is made when it is first locked.
type Lock struct {
	Space, Key string
	// Version, in an Effect, is the guard: what the lock's version must be once it is locked. Each committed
	// unit or effect that locks an entity raises its version by one, which makes it a fencing token.
	Version int64
}

// Found answers an Intake, index by index.
type Found struct {
	Marks []Verdict
	Steps []Step  // as they stood before. Of those that are now taken, State alone
	Locks []int64 // the version that this transaction gives the entity: 1 when it is new
	Sagas []bool  // false: it stands otherwise, and is not locked
	// Follows: the Unit can begin the next one in the round trip of its commit. See Unit.CommitThen.
	Follows bool
}

// A Verdict is what is known of a message.
type Verdict struct {
	Outcome     Outcome
	Reason      string
	Fingerprint int64 // that was stored, 0: none
	Code        int32
	Result      string
	Emitted     string
	Headers     string
	// Left is until the end of the time for which the mark was to stand (Mark.Keep), by the store's clock.
	// Below 0: it is over, and an id that tells its time is still answered. 0: its scope has no retention of
	// its own.
	Left time.Duration
}

// Outcome is what became of a message at a consumer. Its numbers are stored.
type Outcome int16

// Outcomes.
const (
	Fresh    Outcome = iota // not finished by this consumer; never stored
	Done                    // its effect is committed
	Rejected                // its handler said no, for good
	Barred                  // the step that it takes was to be undone before it came
)

// Outcomes that are answered, and never stored with a mark. The last four are of what is kept.
const (
	// no mark, and older than the floor of its consumer: whether it was taken is forgotten
	TooOld   Outcome = -1 - iota
	Conflict         // a mark, of another payload: stations compare the fingerprints
	Waiting          // it is parked
	Dead             // it is a dead letter
	Behind           // others of its key are parked
	Stale            // Retrying: it is no longer as it was claimed
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

// An Effect is what one step leaves behind: all of it, and only if every guard in it holds.
type Effect struct {
	Mark *Mark // guard: absent, and not too old
	// guard: it stands as From says; where it was taken, by this message. Gets State, Code and Result
	Step  *Step
	Locks []Lock          // guard: Version, where it is not 0
	Rows  []skald.Message // into the outbox. Source is the database's own, whatever they say
	Shard *Progress       // guard: the shard's epoch and token

	Answer     *Mark        // guard: there, done and not answered yet; gets As, Reason, Code, Result and Said
	Quarantine *Quarantined // one that is there, with the same fingerprint, stays as it is
	Admitted   *Quarantined // guard: admitted, and not taken yet. Now it is
	Admit      *Admit       // guard: in quarantine, and not admitted yet. Now it is
	// Reservation has a guard: the key is still reserved by its Token. The key is free again.
	Reservation *Reservation

	Park    *Park    // guards: see there
	Requeue *Requeue // guard: it is kept
	Finish  *Finish  // guard: it is kept, as it says
	Rewind  *Rewind  // guard: the shard is there, of that origin, and is farther
	Control *Control
	// DropDeferred has a guard: see there.
	DropDeferred *DropDeferred
	Audit        *Audit

	Saga *SagaMove // guard: its version
}

// Progress is what a relay stores about a shard that it owns.
type Progress struct {
	Shard int
	Epoch int64
	Token string // guard, with Epoch: as in the Shard that Lease returned

	Cursor      *Cursor // nil: as it is
	Incarnation *string // of the broker; nil: as it is

	// rows to deferred; one that is there already gets its Attempts, Why and Due. One with Attempts above 1
	// that is not there was dropped
	Deferred []DeferredRow
	Freed    []int64 // sequence numbers of rows deferred that were published at last
}

// Buckets is how many buckets keys are hashed into. Shards are ranges of them.
const Buckets = 1024

// A Shard is a range of buckets that one relay at a time carries to the broker.
type Shard struct {
	ID          int
	First, Last int   // its buckets, both included
	Epoch       int64 // grows with each owner
	Token       string
	Cursor      Cursor
	Incarnation string // of the broker that Cursor speaks of; "" at first
}

// A Cursor is how far a shard has come: all rows up to the tick Base are acknowledged, and of the window
// from Base to Tip, if one is open (Tip is neither "" nor Base), those up to the sequence number Seq.
// Rows of a window come in the order of their sequence numbers. Ticks are the driver's; "" is the beginning.
type Cursor struct {
	Base, Tip string
	Seq       int64
}

// An Ask is one turn of a relay's lease: say that it lives, renew what it holds, take what is free.
type Ask struct {
	Owner string // the instance's stable name
	// of this session of it, random: another session of the same name is taken over at once
	Session string
	TTL     time.Duration // how long it may be silent. Default 3 s
	Wait    time.Duration // how long it counts among those who wait, if there is no shard for it. Default TTL
	Free    []int         // shards to give back now
	Leave   bool          // give all shards back and be forgotten

	// Away is how long its broker has not answered; 0: the broker answers. A relay whose broker answers is
	// one that others can give their shards to.
	Away time.Duration
	// Yield gives the work away: while another live relay's broker answers, Share is 0 and no shard is taken.
	// While none does, the relay counts as any other, so that an outage of the broker moves no shard.
	Yield bool

	// Knew are shards that it held when the store failed, with the ticks that it had come to. A database that
	// has one of them under the same epoch and token, without its tick, or under a smaller epoch, went back
	// in time: it remembers that, and answers with a *MovedError until Recover.
	Knew []Shard

	// Look is a snapshot to look for new rows from, "" for the beginning; nil: do not look. Leased.Tip
	// answers it. See Snapshot.
	Look *string
}

// Leased answers an Ask.
type Leased struct {
	Shards   []Shard // all that the owner holds now, those it held before and those it has just taken
	Share    int     // how many it should hold, so that every live relay has some; give back what is above
	Sessions int     // how many relays live and may hold shards: at most as many as there are shards

	Waiting int    // how many others, or this one, wait because there are as many relays as shards
	Tip     string // the newest snapshot, or Ask.Look itself if nothing is new; "" without it

	// Timeline, if it is not 0, is a new one of the server's: it failed over since a relay last asked.
	Timeline int
}
