package store

import (
	"context"
	"time"

	"github.com/skald-go/skald"
)

// Maintainer is the part of a Store that maintains the database: retention, recovery, renaming and checks.
type Maintainer interface {
	// Maintain deletes rows that are past their retention and published in every shard. It neither waits for
	// nor blocks writers; rows that it cannot lock immediately stay until the next call.
	Maintain(ctx context.Context, m Maintain) (Maintained, error)

	// Recover repairs a database that moved. It repairs the outbox, if Lease and Pull return a *MovedError,
	// and the sequences, if Check and SyncConsumer return one. Recover blocks writers for a moment.
	// Afterwards all shards are free. Relays read each retained row again, once and in order, unless the row
	// is known to be acknowledged. This includes rows that were written since the move. The note is stored in
	// skald_audit. Without a note, Recover only reports the move. If the database did not move, Recover
	// changes nothing.
	Recover(ctx context.Context, note *Audit) (Recovered, error)

	// Rename counts the rows of both consumers. With an Audit it then moves the rows of Old in one
	// transaction, on three conditions: Old has rows; New has no marks, messages, steps, floors or controls;
	// and no process of either wrote a heartbeat within Quiet. Otherwise nothing changes. If both consumers
	// have a position or a type, that of New is deleted. Processes that start meanwhile wait, or fail and
	// retry. Rename needs the rights of the owner of the tables.
	Rename(ctx context.Context, r Rename) (Renamed, error)

	// Examine reports settings and conditions of the database that endanger the promises or the load. It
	// changes nothing. If Examine has no right to read something, a finding names it. An error is an outage.
	Examine(ctx context.Context, e Exam) ([]skald.Finding, error)
}

// Maintain selects the retention and the lease under which it is applied.
type Maintain struct {
	Keep Retention
	// DryRun counts the rows that Maintain would delete if no other transaction were in the way. It lists the
	// tables from which Maintain cannot delete, with the reason. It changes nothing and blocks nobody, but it
	// reads all rows that it counts.
	DryRun bool
	// Owner, if not empty, first takes or renews the retention lease for the time Lease, by the store's
	// clock. If another owner has this lease, Maintained.Other is true and nothing else happens.
	Owner string
	Lease time.Duration
	// Leave releases Owner's lease and does nothing else.
	Leave bool
}

// Recovered is the result of Recover.
type Recovered struct {
	Moved      string // the contradiction; empty means that the database did not move and nothing was done
	Covered    int64  // rows that were acknowledged before the move and stay unchanged
	Again      int64  // rows that are read again
	Renumbered int64  // rows that are read again under a new number, because their number was used twice
	Shards     int
	Raised     int // sequences that were behind the stored rows of consumers
}

// Exam lists the requirements that a database is checked against.
type Exam struct {
	// Server checks only the server or disk, without Skald's tables: blocked sessions, forgotten transactions
	// and slots, disk space. It returns even while the tables are locked.
	Server bool

	Handle      time.Duration // the maximum time of a handler. Default 60 s
	Connections int           // connections of all processes together; 0 skips the check
	Rate        float64       // messages per second; 0 skips the check
}
