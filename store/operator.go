package store

import (
	"context"
	"time"

	"github.com/skald-go/skald"
)

// Operator is the part of a Store that operators, metrics and tests read. It neither locks nor changes
// anything.
type Operator interface {
	// List lists messages, steps, sagas and other records. Each requested part is a separate query.
	List(ctx context.Context, l List) (Listed, error)

	// Audits lists the actions of operators.
	Audits(ctx context.Context, q AuditQuery) ([]Audit, error)

	// Status counts the records of the database. Each requested part is a separate query.
	Status(ctx context.Context, q StatusQuery) (Status, error)
}

// Lister is the part of an Operator that lists records.
type Lister interface {
	List(ctx context.Context, l List) (Listed, error)
}

// List selects the records to list. A nil part lists nothing.
type List struct {
	Parked      *ParkedQuery
	Quarantined *QuarantineQuery
	Steps       *StepQuery
	Tracked     *TrackedQuery
	Sagas       *SagaQuery
	// Definitions lists the definitions of sagas, by name, newest first.
	Definitions bool
	// Payloads reads a sample of payloads: those of the newest rows of the outbox and of the first deferred
	// rows, up to PayloadRows each. It skips rows without a payload.
	Payloads bool
	Locks    *LockQuery
	Holds    *HoldQuery
	// Waiting lists unpublished rows of the outbox, oldest first. The list has at most this number of
	// deferred rows, and at most this number of other rows, from the first WaitingScan rows. 0 lists none.
	Waiting  int
	Written  *WrittenQuery
	Finished *FinishedQuery
}

// Limits of List.Payloads.
const (
	PayloadRows  = 1000     // rows of the outbox, and as many deferred rows
	PayloadBytes = 16 << 10 // bytes of one payload
	PayloadsAll  = 4 << 20  // bytes of all payloads
)

// Payload is the payload of a row of the outbox.
type Payload struct {
	// Message has id, topic, type and content type. If Read is true, it also has headers and data.
	Message skald.Message
	// Read is false if the payload exceeds the limits or its headers cannot be decoded.
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

// countWithin limits the time of a count of sagas, so that this count does not delay a report of the backlog.
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
	Run    string // selects the audits of one run, in order; empty selects all, the newest first
	After  int64  // with Run: only larger numbers
	Before int64  // without Run: only smaller numbers; 0 begins with the newest
	Limit  int    // default 1,000
}

// StatusQuery selects the parts of Status to read.
type StatusQuery struct {
	// Backlog counts the work that waits. It is cheap even if the outbox is large, because each process with
	// metrics requests it regularly.
	Backlog bool
	// ParkedOf counts the parked messages and dead letters of this consumer; empty counts none.
	ParkedOf string
	// Unhandled lists types without a handler. It reads all parked messages.
	Unhandled bool
	// Retention reads the retention that the last Maintain applied.
	Retention bool
	// Outbox counts unpublished rows. It is cheap even if the outbox is large.
	Outbox bool
	// Sagas counts sagas into Backlog.Sagas and Backlog.Tracked, each count up to 10,000.
	Sagas bool
}

// Status is the result of Operator.Status.
type Status struct {
	Backlog
	Parked ParkedCounts
	// Quarantined is the number of messages in the quarantine of the consumer StatusQuery.ParkedOf that are
	// not yet taken: at most QuarantineOfAll.
	Quarantined int64
	Unhandled   []UnhandledKind // by consumer, topic and type
	// Retention is zero if Maintain never ran.
	Retention Retention
	Outbox    OutboxStatus
}
