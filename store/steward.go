package store

import (
	"context"
	"time"

	"github.com/skald-go/skald"
)

// Maintainer is the part of a Store that maintains the database: retention, recovery, renaming and checks.
type Maintainer interface {
	// Maintain deletes rows that are past their retention and published in every shard. It neither waits for
	// writers nor blocks them; the next call deletes rows that it cannot lock immediately.
	Maintain(ctx context.Context, m Maintain) (Maintained, error)

	// Recover repairs a database that was restored or copied. It repairs the outbox if Lease and Pull return
	// a *MovedError, and the sequences if Check and SyncConsumer return one. Recover blocks writers for a
	// moment. Afterwards all shards are free. Relays read each retained row again, once and in order, unless
	// the row is known to be published. This includes rows that were written since the move. Recover stores
	// note in skald_audit. If note is nil, it only reports the move. If the database did not move, Recover
	// changes nothing.
	Recover(ctx context.Context, note *Audit) (Recovered, error)

	// Rename counts the rows of both consumers. If r has an Audit, it then moves the rows of Old to New, in
	// one transaction. It does so only if Old has rows, if New has no marks, messages, steps, floors or
	// controls, and if no process of either wrote a heartbeat within Quiet. Otherwise it changes nothing. If
	// both consumers have the same position or type, Rename deletes that of New. Processes that start
	// meanwhile wait, or fail and retry. Rename needs the rights of the owner of the tables.
	Rename(ctx context.Context, r Rename) (Renamed, error)

	// Examine reports settings and conditions of the database that endanger Skald's guarantees or the load.
	// It changes nothing. If it has no right to read something, a finding reports that. An error is an
	// outage.
	Examine(ctx context.Context, e Exam) ([]skald.Finding, error)
}

// Maintain has the retention to apply, and the lease that Maintain takes before.
type Maintain struct {
	Keep Retention
	// DryRun counts the rows that Maintain would delete if no other transaction used them. It also lists the
	// tables from which Maintain cannot delete, with the reason. It changes nothing and blocks no
	// transaction, but it reads all rows that it counts.
	DryRun bool
	// Owner, if not empty, takes or renews the retention lease for the time Lease, by the store's clock,
	// before anything else. If another owner has this lease, Maintained.Other is true and nothing else
	// happens.
	Owner string
	Lease time.Duration
	// Leave releases Owner's lease and does nothing else.
	Leave bool
}

// Recovered is the result of Recover.
type Recovered struct {
	Moved      string // the evidence of a move; empty means that the database did not move
	Covered    int64  // number of rows that were published before the move and do not change
	Again      int64  // number of rows that relays read again
	Renumbered int64  // number of rows with a new number, because their number was used twice
	Shards     int    // number of shards that Recover reset
	Raised     int    // number of sequences that were behind the stored rows of consumers
}

// Exam has the requirements of Examine.
type Exam struct {
	// Server limits Examine to the server and the disk: blocked sessions, forgotten transactions and slots,
	// and disk space. So Examine also works while Skald's tables are locked.
	Server bool

	Handle      time.Duration // the maximum time of a handler. Default 60 s
	Connections int           // connections of all processes together; 0 skips the check
	Rate        float64       // messages per second; 0 skips the check
}
