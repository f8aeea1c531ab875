package store

import (
	"context"
	"time"
)

// Sagas is the part of a Driver that keeps orchestrated sagas: one row for each. Names and keys are text
// without NUL, of at most 255 bytes each.
//
// A saga has a version, which grows with each write and with each claim. It is the fence: whoever writes
// names the version that it read, and nothing of the effect stands if another one is stored.
type Sagas[TTx any] interface {
	// StartSaga writes a new saga in tx, leased to s.Session for s.Lease. If one of its name and key is
	// stored, that one is returned, nothing is written, and fresh is false; a rival that starts it at the
	// same time is waited for. With s.Instead it takes the place of the one of that ID, if that has ended.
	StartSaga(ctx context.Context, tx TTx, s Saga) (stored Saga, fresh bool, err error)

	// LockSaga reads a saga in tx and locks it until tx ends. False: there is none. It is written by an
	// Effect, given to Write.
	LockSaga(ctx context.Context, tx TTx, name, key string) (Saga, bool, error)

	// HoldEntities has a saga stand in line for entities, at all of them at once, where it does not yet.
	// First: it stands first at each, so they are its own until FreeEntities. Else the saga is due, and its
	// version raised, once others have left. In tx, which locks the entities as an Intake does.
	HoldEntities(ctx context.Context, tx TTx, h EntityHold) (first bool, err error)

	// InLine tells in tx how a holder stands, and locks its entities so that nobody leaves a line meanwhile.
	// Stands: it stands in some line; first: in each of them it is the first one.
	InLine(ctx context.Context, tx TTx, holder string) (stands, first bool, err error)

	// FreeEntities has a holder leave all lines in which it stands, in tx, and wakes who is first in its
	// place, unless another transaction has that saga locked.
	FreeEntities(ctx context.Context, tx TTx, holder string) error

	// EntityHolders tells in tx who holds entities, of those that somebody holds. Who has an entity locked,
	// as an Intake does, sees nobody come or go until its commit.
	EntityHolders(ctx context.Context, tx TTx, es ...Lock) ([]Hold, error)

	// ClaimSagas leases sagas that are due, the longest due first, and raises their versions. One
	// transaction.
	ClaimSagas(ctx context.Context, c ClaimSagas) (ClaimedSagas, error)

	// NoteSagaDefinitions stores definitions, so that operators and other builds can read them, and when each
	// was last noted. One that is new gets a Number, which it keeps.
	NoteSagaDefinitions(ctx context.Context, ds []SagaDefinition) error
}

// A Saga is an orchestrated saga as it is stored. Package saga encodes Input, Origin and State.
type Saga struct {
	Name, Key string // of the definition, and the business key: there is one saga of both
	ID        string // another one each time that a saga of the key is started
	Hash      string // of the definition that wrote State

	Input       string // JSON; never changes, nor do Fingerprint and Origin
	Fingerprint int64  // of Input: two starts of one key are told apart by it
	Origin      string // correlation, trace, and the parent of a child
	State       string // JSON

	// Version is the fence. StartSaga takes the first one: another one each time, so that what was read of
	// a start that was rolled back is no version of the next one of its key. 0: 1.
	Version int64
	Standing

	// Session has the saga leased until Due. With Session "" Due is when the saga is to be looked at next.
	Session string
	Lease   time.Duration // only StartSaga reads it
	Instead string        // only StartSaga reads it: the ID of the one that has ended
	Due     time.Time     // zero: not before somebody writes it
	// Lapsed, of a saga that was just claimed, is the session whose lease ran out: it did not give the saga
	// back. Only read.
	Lapsed string

	// Only read. Times are the store's.
	Started, Changed time.Time
	Ended            time.Time // zero: it goes on
	// Read, of a saga that LockSaga or a list returns, is when it was read: before or after LockSaga waited.
	Read time.Time
}

// A Standing is how a saga stands, for lists, filters and metrics.
type Standing struct {
	Status string // a word of package saga: running, compensating, done, compensated
	Stuck  bool   // an operator has to decide
	Paused bool
	Step   string    // that it is at, for people
	Error  string    // of the last failure, at most 1 KiB
	Failed int       // attempts that failed in a row
	Since  time.Time // of the first failure in a row; zero: none failed
	Retry  time.Time // when what failed is tried again; zero: it is not
}

// A SagaRef names a saga as it was read.
type SagaRef struct {
	Name, Key string
	Version   int64
}

// A SagaMove writes how a saga stands now. Guard: SagaRef.Version is stored. The stored one is then larger by
// one.
type SagaMove struct {
	SagaRef
	Hash  string // "": as it is
	State string
	Standing
	// Release gives the lease back: the saga is due in Wake, or not before somebody writes it, if Wake is
	// negative. Without it session and due time stay as they are, which costs less.
	Release bool
	Wake    time.Duration
	// Lease, if it is not 0 and Release is false, has the session keep the saga for so long from now.
	Lease time.Duration
	Final bool // the saga has ended: it is never due again
	// Wait, of a move that is applied alone, bounds the waiting for rivals that hold the saga's row, at most;
	// then ErrBusy. 0: 5 s.
	Wait time.Duration
}

// ClaimSagas says which sagas a session claims.
type ClaimSagas struct {
	Session string
	Hashes  []string // definitions that the session knows; sagas of others are left alone
	Limit   int
	Lease   time.Duration // longer than any step takes
}

// ClaimedSagas answers ClaimSagas.
type ClaimedSagas struct {
	Sagas []Saga
	// Next is how long it is until another saga is due; negative: none is known.
	Next time.Duration
}

// A SagaDefinition is a definition as package saga writes it.
type SagaDefinition struct {
	Name, Hash string
	Written    string    // JSON
	Noted      time.Time // only read: when an engine last knew it
	// Number, only read, never changes. It is larger than those of the name that were stored before; two
	// that were stored at the same time may have the same.
	Number int64
}

// A SagaQuery chooses among sagas. Zero fields choose all.
type SagaQuery struct {
	Name, Key, ID string
	Status        []string
	Stuck         bool   // only those
	Paused        bool   // only those
	Failing       bool   // only those that wait for another attempt
	Step          string // that they are at
	Error         string // that their error contains
	StartedBefore time.Time
	StartedAfter  time.Time
	After         *SagaRef // those after this one, by Name and Key
	Light         bool     // without Input and State
	Limit         int      // at most; default 1,000

	// Scan is how many sagas are looked through at most for ID, Step, Error, when they were started, and a
	// Status of those that have ended; 0: all. Where that ends a list that has less than Limit, SagasTo of
	// Listed says how far it came.
	Scan int
}

// SagaCounts is how many sagas of a definition stand how. Counted to 10,000 each.
type SagaCounts struct {
	Name                   string
	Running, Compensating  int64
	Stuck, Paused, Failing int64
	// due for more than a minute, or left to another build for more than 15; in nobody's hand
	Overdue int64
	Oldest  time.Duration // since the oldest of those that have not ended was started
	// FailingFor is the time since the first failed attempt of the one that has failed for longest without a
	// success. Only those are counted that are tried again
	FailingFor time.Duration
}

// ListSagas lists sagas by name and key. It is quick by Key, with and without a Name.
func ListSagas(ctx context.Context, db Lister, q SagaQuery) ([]Saga, error) {
	l, err := db.List(ctx, List{Sagas: &q})
	return l.Sagas, err
}
