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

	// Recover repairs a database that moved. It repairs the outbox, for which Lease and Pull return a
	// *MovedError, and the sequences, for which Check and SyncConsumer do. It blocks writers for a moment.
	// Afterwards all shards are free. Relays read each retained row again, once and in order, unless it is
	// known to be acknowledged. This includes rows written since the move. The note is stored in skald_audit.
	// Without a note it only reports the move. If there was none, it changes nothing.
	Recover(ctx context.Context, note *Audit) (Recovered, error)

	// Rename counts the rows of both consumers. With an Audit it then moves them in one transaction, on three
	// conditions: Old has rows; New has no marks, messages, steps, floors or controls; and no process of
	// either wrote a heartbeat within Quiet. Otherwise nothing changes. Positions and types of New that Old
	// has, too, are deleted. Processes that start meanwhile wait, or fail and retry. It needs the rights of
	// the owner of the tables.
	Rename(ctx context.Context, r Rename) (Renamed, error)

	// Examine reports settings and conditions of the database that endanger the promises or the load. It
	// changes nothing. A finding names anything that it may not read; an error is an outage.
	Examine(ctx context.Context, e Exam) ([]skald.Finding, error)
}

// Maintain selects the retention and the lease under which it is applied.
type Maintain struct {
	Keep Retention
	// DryRun counts the rows that would be deleted if no other transaction were in the way, and lists the
	// others with the reason. It changes nothing, blocks nobody, and reads all rows that it counts.
	DryRun bool
	// Owner, if not empty, first takes or renews the retention lease, for Lease, by the store's clock. If
	// another owner has it, Maintained.Other is true and nothing else happens.
	Owner string
	Lease time.Duration
	// Leave releases Owner's lease and does nothing else.
	Leave bool
}

// Recovered is the result of Recover.
type Recovered struct {
	Moved      string // the observation; empty means that nothing moved and nothing was done
	Covered    int64  // rows that were acknowledged before the move and stay as they are
	Again      int64  // rows that are read again
	Renumbered int64  // rows read again under a new number, because theirs was used twice
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
