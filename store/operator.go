package store

import (
	"context"
	"time"

	"github.com/skald-go/skald"
)

// An Operator is the part of a Store that tells how things stand, for operators, metrics and tests. Nothing
// in it locks or changes anything.
type Operator interface {
	// List lists messages that are kept or in quarantine, and steps. Each part that is asked for is a read of
	// its own.
	List(ctx context.Context, l List) (Listed, error)

	// Audits lists what operators did.
	Audits(ctx context.Context, q AuditQuery) ([]Audit, error)

	// Status tells how the database stands. Each part that is asked for is a read of its own.
	Status(ctx context.Context, q StatusQuery) (Status, error)
}

// A Lister is the part of an Operator that lists messages.
type Lister interface {
	List(ctx context.Context, l List) (Listed, error)
}

// A List says what is to be listed. Nil parts are not read.
type List struct {
	Kept        *Sought
	Quarantined *Query
	Steps       *StepQuery
	Tracked     *TrackedQuery
	Sagas       *SagaQuery
	// Definitions lists the definitions of sagas, by name, the newest first.
	Definitions bool
	// Payloads reads what rows of the outbox carry: the newest ones and the first that are deferred, up to
	// PayloadRows of either. Rows without a payload are passed over.
	Payloads bool
	Locks    *LockQuery
	Holds    *HoldQuery
	// Waiting lists rows of the outbox that are not published, the first written first, at most so many of
	// those that are deferred and of the others; 0: none. Of the others it looks at WaitingScan rows.
	Waiting int
}

// Bounds of List.Payloads: rows of the outbox, and as many deferred ones; bytes of one that is read, and of
// all that are read.
const (
	PayloadRows  = 1000
	PayloadBytes = 16 << 10
	PayloadsAll  = 4 << 20
)

// A Payload is what a row of the outbox carries.
type Payload struct {
	// Message has id, topic, type and content type, and, of one that is Read, headers and data.
	Message skald.Message
	// Read is false of one that is beyond the bounds or has headers that cannot be read.
	Read bool
}

// Listed answers a List.
type Listed struct {
	Kept        []Parked      // by Place
	KeptTo      int64         // the Place up to which Kept has looked, where Sought.Scan ended it; else 0
	Quarantined []Quarantined // by Number
	Steps       []StepRecord  // by consumer, saga, name and occurrence
	Tracked     []Tracked     // by key and flow
	Sagas       []Saga        // by name and key
	SagasTo     *SagaRef      // up to which Sagas has looked, where SagaQuery.Scan ended it; else nil
	Definitions []SagaDefinition
	Payloads    []Payload // the newest first, then those that are deferred
	Locks       Locks
	Holds       []Hold       // by space, key and place
	Waiting     []WaitingRow // by Seq
}

// ListKept lists kept messages by Place.
func ListKept(ctx context.Context, db Lister, what Sought) ([]Parked, error) {
	l, err := db.List(ctx, List{Kept: &what})
	return l.Kept, err
}

// ListQuarantined lists messages in quarantine, in the order in which they came.
func ListQuarantined(ctx context.Context, db Lister, q Query) ([]Quarantined, error) {
	l, err := db.List(ctx, List{Quarantined: &q})
	return l.Quarantined, err
}

// ListSteps lists steps by consumer, saga, name and occurrence. It is quick by Consumer and Saga.
func ListSteps(ctx context.Context, db Lister, q StepQuery) ([]StepRecord, error) {
	l, err := db.List(ctx, List{Steps: &q})
	return l.Steps, err
}

// A Teller is the part of an Operator that tells how the database stands.
type Teller interface {
	Status(ctx context.Context, q StatusQuery) (Status, error)
}

// countWithin bounds how long a count of sagas may keep a backlog waiting.
const countWithin = 2 * time.Second

// ReadBacklog tells how the outbox stands, what is kept for consumers, and how sagas stand. If sagas cannot
// be counted, Uncounted says why.
func ReadBacklog(ctx context.Context, db Teller) (Backlog, error) {
	s, err := db.Status(ctx, StatusQuery{Backlog: true})
	if err != nil {
		return s.Backlog, err
	}
	CountSagas(ctx, db, &s.Backlog)
	return s.Backlog, nil
}

// CountSagas counts sagas into b, whose Uncounted says why if they cannot be counted: all else in b stays.
func CountSagas(ctx context.Context, db Teller, b *Backlog) {
	ctx, cancel := context.WithTimeout(ctx, countWithin)
	defer cancel()
	n, err := db.Status(ctx, StatusQuery{Sagas: true})
	b.Sagas, b.Tracked, b.Uncounted = n.Sagas, n.Tracked, err
}

// An AuditQuery says which audits are to be listed.
type AuditQuery struct {
	Run    string // of this run, in order; "": all, the last first
	After  int64  // of a run: only larger numbers
	Before int64  // without a run: only smaller numbers; 0: from the last
	Limit  int    // at most; default 1,000
}

// A StatusQuery says what Status is to read.
type StatusQuery struct {
	// Backlog costs little, however large the outbox is: each process that reports metrics asks for it now
	// and then.
	Backlog bool
	// Keeping is the consumer whose kept messages are to be counted; "": of none.
	Keeping string
	// Left reads all that is parked.
	Left bool
	// Retention is what Maintain last went by.
	Retention bool
	// Outbox reads views that are cheap however large the outbox is.
	Outbox bool
	// Sagas counts sagas into Backlog.Sagas and Backlog.Tracked, each count up to 10,000.
	Sagas bool
}

// Status answers a StatusQuery.
type Status struct {
	Backlog
	Keeping Keeping
	// Quarantined is how many messages of Keeping's consumer are in quarantine and not taken out again. The
	// store keeps no more than QuarantineOfAll.
	Quarantined int64
	Left        []LeftKind // by consumer, topic and type
	// Retention is zero if Maintain never ran.
	Retention Retention
	Outbox    OutboxStatus
}
