package store

import "time"

// Retention is the time for which rows are kept after their publication, and marks after their message was
// written. Marks must outlive the rows that could repeat their messages; otherwise Maintain returns a
// *RetentionError.
type Retention struct {
	Outbox time.Duration // default 7 days
	Marks  time.Duration // default 30 days
	// Steps is the time for which a step is kept. It counts from the start of the saga, or from the time at
	// which the step was stored, whichever is later. No saga may take longer than this. Default 90 days.
	Steps time.Duration
	// Sagas is the time for which an orchestrated saga and its key are kept after the saga ended. Default 30
	// days.
	Sagas time.Duration
}

// Backlog counts the work that waits in a database.
type Backlog struct {
	Source string // the source of this database's messages
	// Pending is the number of unpublished rows, without the deferred ones. It is an estimate if there are
	// many.
	Pending     int64
	Oldest      time.Duration     // since the oldest pending row was written; 0 if there is none
	Deferred    int64             // deferred rows
	Retained    time.Duration     // since the oldest stored row was written; 0 if there is none
	Free        int               // shards without a live relay
	PerConsumer []ConsumerBacklog // per consumer with parked, dead or quarantined messages, by name

	Consumers []Consumer // all consumers that ever wrote a heartbeat, by name
	// Relays are the relays that own shards, and live relays with an unreachable broker, by name. A dead
	// relay is listed until another relay has its shards.
	Relays []RelayProgress

	Reserved []ReservedCounts // per consumer with reservations, by name

	Sagas   []SagaCounts    // orchestrated ones, by name; only if requested
	Tracked []TrackedCounts // choreographed ones, by flow; only if requested
	// Uncounted is the reason that ReadBacklog could not count sagas. The other fields are valid in any case.
	Uncounted error
}

// ReservedCounts counts the reservations of a consumer, up to 10,000 in all. The outcome of an expired
// reservation is unknown, because its work was neither finished nor started again, and its key was not
// released.
type ReservedCounts struct {
	Consumer      string
	Held, Expired int64
}

// ConsumerBacklog counts the messages of a consumer that wait in the database.
type ConsumerBacklog struct {
	Consumer string
	ParkedCounts
	Conflicts, TooOld int64         // in quarantine and not admitted
	QuarantineBytes   int64         // bytes of these payloads
	QuarantineAge     time.Duration // since the oldest of these arrived; 0 if there is none
	// Calls is the number of external calls with an unknown outcome, including those of dead letters. Called
	// is the time since the oldest of these calls was stored; 0 if there is none.
	Calls      int64
	OldestCall time.Duration
}

// Maintained is the result of Maintain.
type Maintained struct {
	Rows, Marks int64    // deleted; -1 if the driver truncated a table without counting
	Steps       int64    // deleted
	Sagas       int64    // deleted
	Left        []string // tables from which Maintain could not delete now, with the reason
	Other       bool     // another owner has the retention lease; nothing was done
	More        bool     // more rows remain to be deleted: call Maintain again
}
