package store

import "time"

// Retention is the time after which Maintain deletes rows. Marks must be kept for longer than outbox rows,
// because a relay could publish the rows again; otherwise Maintain returns a *RetentionError.
type Retention struct {
	// Outbox counts from the write of a row. Maintain deletes only published rows. Default 7 days.
	Outbox time.Duration
	// Marks counts from the write of a mark, or from the time in the message's ID if that is later. Default
	// 30 days.
	Marks time.Duration
	// Steps counts from the start of the saga, or from the time at which the step was stored if that is
	// later. No saga may take longer than Steps. Default 90 days.
	Steps time.Duration
	// Sagas counts from the end of an orchestrated saga. After Sagas, a new saga can use the key. Default 30
	// days.
	Sagas time.Duration
}

// Backlog counts the work that waits in a database.
type Backlog struct {
	Source string // the source of this database's messages
	// Pending is the number of unpublished rows, without the deferred ones. Above 10,000 it may be an
	// estimate.
	Pending     int64
	Oldest      time.Duration     // age of the oldest pending row; 0 without pending rows
	Deferred    int64             // number of deferred rows
	Retained    time.Duration     // age of the oldest stored row; 0 without rows
	Free        int               // number of shards without a live relay
	PerConsumer []ConsumerBacklog // one for each consumer with parked, dead or quarantined messages, by name

	Consumers []Consumer // all consumers that ever wrote a heartbeat, by name
	// Relays has the relays that own shards, and live relays with an unreachable broker, by name. It has a
	// dead relay until another relay has its shards.
	Relays []RelayProgress

	Reserved []ReservedCounts // one for each consumer with reservations, by name

	Sagas   []SagaCounts    // orchestrated sagas, by name; only if requested
	Tracked []TrackedCounts // choreographed sagas, by flow; only if requested
	// Uncounted is the error if ReadBacklog could not count sagas. The other fields are still valid.
	Uncounted error
}

// ReservedCounts counts the reservations of a consumer, up to 10,000 in all. An expired reservation means
// that the outcome of its work is unknown: the caller did not finish the work or release the key, and nobody
// requested the key again.
type ReservedCounts struct {
	Consumer      string
	Held, Expired int64
}

// ConsumerBacklog counts the messages of a consumer that wait in the database.
type ConsumerBacklog struct {
	Consumer string
	ParkedCounts
	Conflicts, TooOld int64         // messages in the quarantine that are not admitted, by reason
	QuarantineBytes   int64         // bytes of the payloads of these messages
	QuarantineAge     time.Duration // time since the oldest of these messages arrived; 0 without messages
	// Calls is the number of external calls with an unknown outcome, including those of dead letters.
	// OldestCall is the time since the oldest of these calls was stored; 0 without calls.
	Calls      int64
	OldestCall time.Duration
}

// Maintained is the result of Maintain.
type Maintained struct {
	Rows, Marks int64    // number of deleted rows; -1 if the driver truncated a table without counting
	Steps       int64    // number of deleted steps
	Sagas       int64    // number of deleted sagas
	Left        []string // tables from which Maintain could not delete now, with the reason
	Other       bool     // another owner has the retention lease, so Maintain did nothing
	More        bool     // more expired rows remain: call Maintain again
}
