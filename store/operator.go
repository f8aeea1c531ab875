package store

import (
	"context"
	"time"

	"github.com/skald-go/skald"
)

// Operator is the part of a Store that reports its state to operators, metrics and tests. It neither locks
// nor changes anything.
type Operator interface {
	// List lists messages, steps, sagas and other records. Each requested part is a separate read.
	List(ctx context.Context, l List) (Listed, error)

	// Audits lists the actions of operators.
	Audits(ctx context.Context, q AuditQuery) ([]Audit, error)

	// Status counts the records of the database. Each requested part is a separate read.
	Status(ctx context.Context, q StatusQuery) (Status, error)
}

// Lister is the part of an Operator that lists records.
type Lister interface {
	List(ctx context.Context, l List) (Listed, error)
}

// List selects the records to list. Nil parts are not read.
type List struct {
	Parked      *ParkedQuery
	Quarantined *QuarantineQuery
	Steps       *StepQuery
	Tracked     *TrackedQuery
	Sagas       *SagaQuery
	// Definitions lists the definitions of sagas, by name, newest first.
	Definitions bool
	// Payloads reads payloads of the outbox: of the newest rows and of the first deferred ones, up to
	// PayloadRows each. Rows without a payload are skipped.
	Payloads bool
	Locks    *LockQuery
	Holds    *HoldQuery
	// Waiting lists unpublished rows of the outbox, oldest first. The list has at most this number of
	// deferred rows, and at most this number of other rows, from the first WaitingScan rows. 0 lists none.
	Waiting  int
	Written  *WrittenQuery
	Finished *FinishedQuery
}

// Bounds of List.Payloads: rows of the outbox and of the deferred ones each, bytes of one payload, and bytes
// of all.
const (
	PayloadRows  = 1000
	PayloadBytes = 16 << 10
	PayloadsAll  = 4 << 20
)

// Payload is the payload of a row of the outbox.
type Payload struct {
	// Message has id, topic, type and content type; if Read is true, headers and data, too.
	Message skald.Message
	// Read is false if the payload exceeds the bounds or its headers cannot be decoded.
	Read bool
}

// Listed is the result of List.
type Listed struct {
	Parked []Parked // by Place
	// ParkedTo is the last Place that was examined, if ParkedQuery.Scan ended the list; otherwise 0.
	ParkedTo    int64
	Quarantined []Quarantined // by Number
	Steps       []StepRecord  // by consumer, saga, name and occurrence
	Tracked     []Tracked     // by key and flow
	Sagas       []Saga        // by name and key
	// SagasTo is the last saga that was examined, if SagaQuery.Scan ended the list; otherwise nil.
	SagasTo     *SagaRef
	Definitions []SagaDefinition
	Payloads    []Payload // the newest first, then the deferred ones
	Locks       Locks
	Holds       []Hold       // by space, key and place
	Waiting     []WaitingRow // by Seq
	Written     []WrittenRow // by Seq; the newest if there are more than the limit
	Finished    []Finished   // by At
}

// ListParked lists parked messages and dead letters by Place.
func ListParked(ctx context.Context, db Lister, what ParkedQuery) ([]Parked, error) {
	l, err := db.List(ctx, List{Parked: &what})
	return l.Parked, err
}

// ListQuarantined lists messages in quarantine in their order of arrival.
func ListQuarantined(ctx context.Context, db Lister, q QuarantineQuery) ([]Quarantined, error) {
	l, err := db.List(ctx, List{Quarantined: &q})
	return l.Quarantined, err
}

// ListSteps lists steps by consumer, saga, name and occurrence. An index supports Consumer with Saga.
func ListSteps(ctx context.Context, db Lister, q StepQuery) ([]StepRecord, error) {
	l, err := db.List(ctx, List{Steps: &q})
	return l.Steps, err
}

// StatusReader is the part of an Operator that reports its status.
type StatusReader interface {
	Status(ctx context.Context, q StatusQuery) (Status, error)
}

// countWithin limits the time of a count of sagas, so that the count does not delay a backlog for long.
const countWithin = 2 * time.Second

// ReadBacklog reads the backlog of the outbox, of the consumers and of sagas. If sagas cannot be counted,
// Uncounted has the reason and the other fields are valid.
func ReadBacklog(ctx context.Context, db StatusReader) (Backlog, error) {
	s, err := db.Status(ctx, StatusQuery{Backlog: true})
	if err != nil {
		return s.Backlog, err
	}
	CountSagas(ctx, db, &s.Backlog)
	return s.Backlog, nil
}

// CountSagas adds the counts of sagas to b. If the count fails, CountSagas only sets b.Uncounted.
func CountSagas(ctx context.Context, db StatusReader, b *Backlog) {
	ctx, cancel := context.WithTimeout(ctx, countWithin)
	defer cancel()
	n, err := db.Status(ctx, StatusQuery{Sagas: true})
	b.Sagas, b.Tracked, b.Uncounted = n.Sagas, n.Tracked, err
}

// AuditQuery selects audits.
type AuditQuery struct {
	Run    string // of this run, in order; empty selects all, the last first
	After  int64  // with a run: only larger numbers
	Before int64  // without a run: only smaller numbers; 0 begins with the last
	Limit  int    // default 1,000
}

// StatusQuery selects the parts of Status to read.
type StatusQuery struct {
	// Backlog is cheap even if the outbox is large, because each process that reports metrics requests it
	// regularly.
	Backlog bool
	// ParkedOf counts the parked messages and dead letters of this consumer; empty counts none.
	ParkedOf string
	// Unhandled lists types without a handler. It reads all parked messages.
	Unhandled bool
	// Retention reads the retention that Maintain last applied.
	Retention bool
	// Outbox reads views that are cheap even if the outbox is large.
	Outbox bool
	// Sagas counts sagas into Backlog.Sagas and Backlog.Tracked, each count up to 10,000.
	Sagas bool
}

// Status is the result of Operator.Status.
type Status struct {
	Backlog
	Parked ParkedCounts
	// Quarantined is the number of messages in quarantine, of the consumer in StatusQuery.ParkedOf, that are
	// not yet taken. A store has at most QuarantineOfAll.
	Quarantined int64
	Unhandled   []UnhandledKind // by consumer, topic and type
	// Retention is zero if Maintain never ran.
	Retention Retention
	Outbox    OutboxStatus
}
