package store

import (
	"context"
	"time"
)

// Sagas is the part of a Driver that stores orchestrated sagas, one row for each. Names and keys are text
// without NUL, at most 255 bytes each.
//
// The version of a saga grows with each write and each claim. It is a fencing token: a writer passes the
// version that it read, and the store refuses the effect if the saga has another version.
type Sagas[TTx any] interface {
	// StartSagas writes new sagas in tx, each leased to its Session for its Lease. If the store already has a
	// saga with the same name and key, StartSagas returns that saga with fresh false, and does not write. It
	// waits for a concurrent start of the same saga. If two of ss have the same name and key, StartSagas
	// writes the first. It writes in the order of names and keys, with one statement if the database has
	// round trips. A saga with Instead must be the only one in ss. It replaces the saga with the ID Instead,
	// if that saga has ended.
	StartSagas(ctx context.Context, tx TTx, ss ...Saga) (stored []Saga, fresh []bool, err error)

	// LockSagas reads sagas in tx and locks them until tx ends, in the order of their names and keys. If the
	// database has round trips, it uses one statement. It ignores the versions of refs. The result has the
	// order of refs. A missing saga has no Name in the result. To change a saga, write an Effect.
	LockSagas(ctx context.Context, tx TTx, refs ...SagaRef) ([]Saga, error)

	// HoldEntities puts a saga in the queues of all entities at the same time, unless the saga is already
	// there. It returns true if the saga is first in each queue. The saga then holds the entities until
	// FreeEntities. Otherwise the saga becomes due, with a new version, when the sagas before it have left.
	// HoldEntities locks the entities in tx as an Intake does.
	HoldEntities(ctx context.Context, tx TTx, h EntityHold) (first bool, err error)

	// QueueState locks the entities of a holder in tx, so that no other holder leaves a queue meanwhile. The
	// result queued is true if the holder is in any queue. The result first is true if the holder is first in
	// each of its queues.
	QueueState(ctx context.Context, tx TTx, holder string) (queued, first bool, err error)

	// FreeEntities removes a holder from all its queues, in tx. It wakes the next saga of each queue, unless
	// another transaction has locked that saga.
	FreeEntities(ctx context.Context, tx TTx, holder string) error

	// EntityHolders returns the first saga in the queue of each entity that has a queue. If tx has locked an
	// entity, as an Intake does, the queue of that entity does not change before tx ends.
	EntityHolders(ctx context.Context, tx TTx, es ...Lock) ([]Hold, error)
}

// Saga is a stored orchestrated saga. Package saga encodes Input, Origin and State.
type Saga struct {
	Name, Key string // the definition and the business key; unique together
	ID        string // different for each start of a key
	Hash      string // of the definition that wrote State

	Input       string // JSON; Input, Fingerprint and Origin never change
	Fingerprint int64  // a hash of Input; distinguishes two starts of one key
	Origin      string // correlation, trace, and the parent of a child saga
	State       string // JSON

	// Version is the fencing token. StartSagas stores it as the first version; 0 means 1. It should differ at
	// each start. Then a version from a start that was rolled back never matches a later start of the same
	// key.
	Version int64
	SagaStatus

	// Session is the session that has leased the saga until Due. If Session is empty, an engine claims the
	// saga at Due.
	Session string
	Lease   time.Duration // only StartSagas reads it
	Instead string        // only StartSagas reads it: the ID of the ended saga to replace
	Due     time.Time     // zero means that the saga is not due before another write
	// Lapsed, on a claimed saga, is the session that let the previous lease of the saga expire. Drivers set
	// it on reading.
	Lapsed string

	// Started and the fields below are set by drivers on reading, by the store's clock.
	Started, Changed time.Time
	Ended            time.Time // zero until it ends
	// Read is the time at which LockSagas or a list read the saga. LockSagas may have waited before or after
	// that time.
	Read time.Time
}

// SagaStatus is the state of a saga for lists, filters and metrics.
type SagaStatus struct {
	Status string // a word of package saga: running, compensating, done, compensated
	Stuck  bool   // an operator has to decide
	Paused bool
	Step   string    // the current step, for people
	Error  string    // of the last failure, at most 1 KiB
	Failed int       // consecutive failed attempts
	Since  time.Time // time of the first of these attempts; zero if no attempt failed
	Retry  time.Time // time of the next attempt; zero without another attempt
}

// SagaRef identifies a saga and the version that was read.
type SagaRef struct {
	Name, Key string
	Version   int64
}

// SagaUpdate writes a new state of a saga and raises its version by one. Guard: SagaRef.Version is the stored
// version.
type SagaUpdate struct {
	SagaRef
	Hash  string // empty leaves it unchanged
	State string
	SagaStatus
	// Release ends the lease. The saga is due after Wake; if Wake is negative, it is not due before another
	// write. Without Release, the session and the due time stay unchanged, which is cheaper.
	Release bool
	Wake    time.Duration
	// Lease, if not 0 and if Release is false, extends the lease to this time from now.
	Lease time.Duration
	Final bool // the saga has ended and is never due again
	// Wait limits the wait for locks of the transaction with this update. After that time Apply returns an
	// error for which Contended returns true. 0 means 5 s. Among several updates the least Wait applies.
	Wait time.Duration
}

// SagaDefinition is a definition as package saga encodes it.
type SagaDefinition struct {
	Name, Hash string
	Written    string    // JSON
	Noted      time.Time // when an engine last stored it; drivers set it on reading
	// Number is larger than the earlier numbers of the same name. Two definitions that are stored at the same
	// time may have equal numbers. A number never changes. Drivers set it on reading.
	Number int64
}

// SagaQuery selects sagas. Zero fields select all.
type SagaQuery struct {
	Name, Key, ID string
	Status        []string
	Stuck         bool   // only stuck sagas
	Paused        bool   // only paused sagas
	Failing       bool   // only sagas that wait for another attempt
	Step          string // the current step
	Error         string // a part of the error
	StartedBefore time.Time
	StartedAfter  time.Time
	After         *SagaRef // only later sagas, by Name and Key
	Light         bool     // omit Input and State
	Limit         int      // default 1,000

	// Scan limits the number of sagas to examine for ID, Step, Error, start times, and the Status of ended
	// sagas; 0 means no limit. If Scan ends the list before Limit, Listed.SagasTo is the last examined saga.
	Scan int
}

// SagaCounts counts the sagas of a definition by state, up to 10,000 each.
type SagaCounts struct {
	Name                   string
	Running, Compensating  int64
	Stuck, Paused, Failing int64
	// Overdue is the number of sagas without a lease that have been due for more than a minute. For sagas
	// that wait for another build, the limit is 15 minutes.
	Overdue int64
	Oldest  time.Duration // time since the oldest saga that has not ended was started
	// FailingFor is the longest time since the first of a saga's consecutive failures. It includes only sagas
	// with a next attempt.
	FailingFor time.Duration
}

// ListSagas lists sagas by name and key. An index supports Key, with and without Name.
func ListSagas(ctx context.Context, db Lister, q SagaQuery) ([]Saga, error) {
	l, err := db.List(ctx, List{Sagas: &q})
	return l.Sagas, err
}
