// Package store is the seam to the database: what a step reads and writes, as data. Interfaces, plain data
// and errors; no behaviour. Drivers stand beside it (memstore, sqlitestore, pgstore); storetest holds what
// every driver promises.
//
// An Intake is all that is needed before a handler runs; an Effect is all that one step leaves behind, and
// stands only if every guard in it holds. Effects are sent three ways: Write (the caller's transaction),
// Unit.Commit (all or nothing, with the COMMIT) and Apply (each for itself). A driver can therefore send each
// in one round trip, and an explorer can crash between any two.
package store

import (
	"context"
	"time"

	"github.com/skald-go/skald"
)

// A Driver is a Store for stations that touch your transaction; TTx is pgx.Tx, *sql.Tx or *memstore.Tx.
// Drivers are safe for concurrent use.
type Driver[TTx any] interface {
	Store

	// Begin opens a transaction and takes in. The caller ends the Unit once, by Commit or Rollback; where
	// Begin fails nothing is left open. ErrBusy: a rival held a mark or a lock for longer than in.Wait.
	Begin(ctx context.Context, in Intake) (Unit[TTx], error)

	// Write adds es to tx, which it never commits. In a transaction that a Unit lent, the rows wait for the
	// Unit's Commit and cost no round trip. Effects written here may hold Rows, and an Answer to a mark of Enter's, only.
	Write(ctx context.Context, tx TTx, es ...Effect) error

	// Enter takes in within tx, a transaction of the caller's own: marks and locks, with the caller's own bounds on
	// waiting. An Answer to such a mark goes by Write.
	Enter(ctx context.Context, tx TTx, in Intake) (Found, error)
}

// A Unit is a transaction of ours, lent to a handler.
type Unit[TTx any] interface {
	// Tx is the transaction. Its own Commit and Rollback answer ErrLent; a driver that cannot stop them
	// (*sql.Tx) finds out in Commit, which then fails with ErrLent.
	Tx() TTx
	// Found answers the Intake, index by index.
	Found() Found
	// Commit writes what was kept, then es, then commits: all of it or, if any guard is lost (ErrLost) or the
	// transaction was already aborted, none. Another error may hide a commit that took effect: the marks tell.
	// After Commit, whatever it returned, the Unit is ended.
	Commit(ctx context.Context, es ...Effect) error
	// Rollback undoes everything and then does Apply(instead...). It ends the Unit. Without instead its
	// error only says that the connection was lost: the rows are undone in any case.
	Rollback(ctx context.Context, instead ...Effect) ([]bool, error)
}

// A Follower is a Unit that can begin the next in the round trip of its Commit: who has the next message at hand saves one for each.
type Follower[TTx any] interface {
	Unit[TTx]
	// CommitThen is Commit and, where that succeeded, Begin of next on the same connection. What is begun only follows: the commit
	// stands whatever becomes of it, and does not wait for it. Nil: nothing was begun, for whatever reason; Begin will tell.
	CommitThen(ctx context.Context, next Intake, es ...Effect) (Unit[TTx], error)
}

// A Store does short transactions of our own. Any call may have taken effect though it returned an error;
// the guards make the repeat harmless.
type Store interface {
	// Apply carries out each effect for itself, in order. False: a guard of it was lost and nothing of it stands.
	Apply(ctx context.Context, es ...Effect) ([]bool, error)

	// Seen looks up which messages a consumer has finished. It locks nothing: Fresh is a guess, the rest is not.
	Seen(ctx context.Context, consumer string, ids []Identity) ([]Verdict, error)

	// Secret is the key of this database's fingerprints. It was drawn when the tables were made, and stays.
	Secret(ctx context.Context) ([]byte, error)

	// Quarantined lists messages in quarantine, in the order in which they came.
	Quarantined(ctx context.Context, q Query) ([]Quarantined, error)

	// Admit lets the consumers of these messages in quarantine take them, and notes who says so and why. It tells how many
	// were not admitted before.
	Admit(ctx context.Context, numbers []int64, by, reason string) (int, error)

	// Lease takes, renews and gives back lanes, by the store's clock.
	Lease(ctx context.Context, ask Ask) (Leased, error)

	// Tick looks for rows that were committed after base was drawn ("" is the beginning). If there are none it
	// returns base and writes nothing. Else it draws a new tick: from then on Pull can read what lies between
	// the two, and all of it is flushed to disk before Tick returns. ErrMoved: base is not there any more.
	Tick(ctx context.Context, base string) (tip string, err error)

	// Pull reads a page of a window, in order, at most limit rows.
	Pull(ctx context.Context, w Window, limit int) (Page, error)

	// Held lists the keys that have rows set aside, in these lanes. Rows without a key hold nobody and are not listed.
	Held(ctx context.Context, lanes []int) ([]Held, error)

	// Retry reads rows that were set aside and are due, of these lanes, in order, at most limit. Of a key it
	// gives the first row, if that one is due; then the rows behind it, up to and without the first of them that
	// was tried before; and if the first itself was tried before (Attempts above 0), it alone.
	Retry(ctx context.Context, lanes []int, limit int) ([]Aside, error)

	Keeper

	Overseer
	// Spots tells how a consumer stands in all lanes that are known of it. It locks nothing.
	Spots(ctx context.Context, consumer string) (Spots, error)

	// Occupy notes, under the name note, that life has these lanes from now on, and answers with all of them as they stood
	// before. What a life that has not left one of these in peace has in hand is due at once. A lane that is new, or has
	// another origin now, begins with the Position and Reach that it is given here; of the others those that are stored stay. Where
	// the database gives out numbers that are taken it is a *MovedError, and nothing is noted.
	Occupy(ctx context.Context, consumer, life, note string, lanes []Spot) (Spots, error)

	// Advance stores, under the name note, each of these lanes whose Note is as it is given here, if the database is on
	// server: else nothing. It answers as Spots does, behind it. A lane whose Note is not note then was not stored: the
	// database went back in time, it was rewound, or another life has it.
	Advance(ctx context.Context, consumer, server, note string, lanes []Spot) (Spots, error)

	// Kinds notes that a process of the consumer handles own, by the store's clock, and answers with all kinds that were noted
	// of the consumer before, by whom ever. Those that nobody noted for as long as forget are forgotten first; 0: none is. With
	// neither it only reads.
	Kinds(ctx context.Context, consumer string, own []Kind, forget time.Duration) ([]Kind, error)

	// Maintain empties what is older than keep and covered by every lane. It neither waits for nor blocks
	// writers; what it could not have at once it leaves for the next time.
	Maintain(ctx context.Context, keep Retention) (Maintained, error)

	// Reseat settles the outbox of a database that moved, which Lease, Tick and Pull answer with a *MovedError, and the numbers that
	// it gives out, for which Check and Occupy do. It locks writers out for a moment; afterwards each retained row that is not known as acknowledged is read again, once and
	// in order, those written since the move too, and all lanes are free. Who does it and why is noted with it. Without a note it
	// only tells what moved. Where nothing did, it changes nothing.
	Reseat(ctx context.Context, note *Audit) (Reseated, error)

	// Backlog tells what is not published yet and whether anybody sees to it. It locks nothing, and costs little
	// however large the outbox is: every process that reports metrics asks, now and then.
	Backlog(ctx context.Context) (Backlog, error)

	// Check tells, before first use, whether the tables are there, in a version that this build can use, with
	// the rights that as needs: a *SchemaError or *RightError, a *MovedError for App where the database gives out numbers that are
	// taken (as behind a logical switch-over, which copies no sequences), else an outage.
	Check(ctx context.Context, as Role) error

	// Outage tells of any error, a handler's own too, whether it is nobody's fault and worth the same try again:
	// a lost connection, a server that is away, a deadlock, a lock that was not to be had, a busy file.
	Outage(err error) bool
}

// A Waker is a Store that knows of writes in this process, so that a relay need not poll for them.
type Waker interface {
	// Woken is closed at the next write or commit; then ask for a new one. A write into the caller's transaction
	// wakes before its commit: look for a while.
	Woken() <-chan struct{}
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
	// Marks are inserted, each waiting for a rival that has it in hand. Of several, those that are not fresh are not there, so that the
	// others may be committed; a single one that is kept is for rolling back.
	Marks []Mark
	// Steps are taken or undone, and locked until the transaction ends, in an order that the driver chooses. One that may not
	// be taken stays as it is; one that is not done, or under way, is barred by whoever would undo it.
	Steps []Step
	Locks []Lock // entity rows, locked or created, in an order that the driver chooses
	// Settings of the database hold for this transaction, from the handler on, in their order: a tenant for row-level
	// security, a role. A driver whose database has none refuses them with ErrNoSettings.
	Settings []Setting
	// Server is the life of the server that is meant, as Occupy told it: on another one ErrLost, since what the caller knows may
	// not be there. Empty: any.
	Server string
	// Isolation of the transaction. Above ReadCommitted what collides fails by an error that Collided tells of. A driver that cannot
	// have it refuses it with ErrNoIsolation. Enter does not look at it: the transaction is begun.
	Isolation Isolation
	// Wait bounds the waiting for rivals, at most; then ErrBusy. 0: 5 s.
	Wait time.Duration
	// Handle is how long the handler may leave the transaction idle before the database ends it, so that a
	// paused instance does not hold its mark for ever. 0: 60 s.
	Handle time.Duration
}

// A Setting is a name and a value, "app.tenant" and "42".
type Setting struct{ Name, Value string }

// Identity is what a message is, for ever.
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
	Said        string // what the station said with it, as it encoded that
	// Held: Skald itself held the message since it came, parked or dead. No floor counts against it.
	Held bool

	Turn     Turn   // what the order of its key asks; default Anytime
	Key      []byte // of the message, for Turn; nil: it has none
	Attempts int    // that it was claimed with, for Retrying
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
}

// A Verdict is what is known of a message.
type Verdict struct {
	Outcome     Outcome
	Reason      string
	Fingerprint int64 // that was stored, 0: none
	Code        int32
	Result      string
	Said        string
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
	TooOld   Outcome = -1 - iota // no mark, and older than the floor of its consumer: whether it was taken is forgotten
	Conflict                     // a mark, of another payload: stations compare the fingerprints
	Waiting                      // it is parked
	Dead                         // it is a dead letter
	Behind                       // others of its key are parked
	Stale                        // Retrying: it is no longer as it was claimed
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
	Mark  *Mark           // guard: absent, and not too old
	Step  *Step           // guard: it stands as From says; where it was taken, by this message. Gets State, Code and Result
	Locks []Lock          // guard: Version, where it is not 0
	Rows  []skald.Message // into the outbox. Source is the database's own, whatever they say
	Lane  *Progress       // guard: the lane's epoch and token

	Answer     *Mark        // guard: there, done and not answered yet; gets As, Reason, Code, Result and Said
	Quarantine *Quarantined // one that is there, with the same fingerprint, stays as it is
	Admitted   *Quarantined // guard: admitted, and not taken yet. Now it is

	Keep    *Keep    // guards: see there
	Release *Release // guard: it is kept
	Free    *Free    // guard: it is kept, as it says
	Rewind  *Rewind  // guard: the lane is there, of that origin, and is farther
	Audit   *Audit
}

// Progress is what a relay stores about a lane that it owns.
type Progress struct {
	Lane  int
	Epoch int64
	Token string // guard, with Epoch: as in the Lane that Lease returned

	Cursor      *Cursor // nil: as it is
	Incarnation *string // of the broker; nil: as it is

	Aside []Aside // rows to set aside; one that is there already gets its Attempts, Why and Due
	Freed []int64 // sequence numbers of rows set aside that were published at last
}

// Buckets is how many buckets keys are hashed into. Lanes are ranges of them.
const Buckets = 1024

// A Lane is a range of buckets that one relay at a time carries to the broker.
type Lane struct {
	ID          int
	First, Last int   // its buckets, both included
	Epoch       int64 // grows with each owner
	Token       string
	Cursor      Cursor
	Incarnation string // of the broker that Cursor speaks of; "" at first
}

// A Cursor is how far a lane has come: all rows up to the tick Base are acknowledged, and of the window
// from Base to Tip, if one is open (Tip is neither "" nor Base), those up to the sequence number Seq.
// Rows of a window come in the order of their sequence numbers. Ticks are the driver's; "" is the beginning.
type Cursor struct {
	Base, Tip string
	Seq       int64
}

// An Ask is one turn of a relay's lease: say that it lives, renew what it holds, take what is free.
type Ask struct {
	Owner string        // the instance's stable name
	Life  string        // of this life of it, random: another life of the same name is taken over at once
	TTL   time.Duration // how long it may be silent. Default 3 s
	Wait  time.Duration // how long it counts among those who wait, if there is no lane for it. Default TTL
	Free  []int         // lanes to give back now
	Leave bool          // give all lanes back and be forgotten

	// Knew are lanes that it held when the store failed, with the ticks that it had come to. A database that has one of them under the same
	// epoch and token, without its tick, or under a smaller epoch, went back in time: it remembers that, and answers
	// with a *MovedError until Reseat.
	Knew []Lane

	// Look is a tick to be looked from, too: as Tick would, behind the lease and in the same round trip. nil: none.
	Look *string
}

// Leased answers an Ask.
type Leased struct {
	Lanes []Lane // all that the owner holds now, those it held before and those it has just taken
	Share int    // how many it should hold, so that every live relay has some; give back what is above
	Lives int    // how many relays live and may hold lanes: at most as many as there are lanes

	Waiting int    // how many others, or this one, wait because there are as many relays as lanes
	Tip     string // what Tick answered, where Ask.Look was given

	// Timeline, if it is not 0, is a new one of the server's: it failed over since a relay last asked.
	Timeline int
}

// Reseated is what Reseat did.
type Reseated struct {
	Moved      string // what was seen; "": nothing moved, nothing was done
	Covered    int64  // rows that stay as they are: acknowledged before the move
	Again      int64  // rows that are read again
	Renumbered int64  // of those, the ones whose number had been given out before
	Lanes      int
	Raised     int // sequences that had not come to what consumers keep
}
