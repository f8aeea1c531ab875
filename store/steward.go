package store

import (
	"context"
	"time"

	"github.com/skald-go/skald"
)

// A Steward is the part of a Store that keeps the database in order: retention, recovery, renaming and
// examination.
type Steward interface {
	// Maintain empties what is older than it is to be kept and covered by every shard. It neither waits for
	// nor blocks writers; what it could not have at once it leaves for the next time.
	Maintain(ctx context.Context, m Maintain) (Maintained, error)

	// Recover settles the outbox of a database that moved, which Lease and Pull answer with a *MovedError,
	// and the numbers that it gives out, for which Check and Attend do. It locks writers out for a moment.
	// Afterwards each retained row that is not known as acknowledged is read again, once and in order, those
	// written since the move too, and all shards are free. The note is stored in skald_audit. Without a note
	// it only tells what moved. Where nothing did, it changes nothing.
	Recover(ctx context.Context, note *Audit) (Recovered, error)

	// Rename counts what is kept of both consumers, and, with an Audit, moves it all in one transaction,
	// where three things hold: Old has something, New has neither marks, messages, steps, floors nor
	// controls, and no process of either was heard of within Quiet. Else nothing changes. Positions and types
	// of New go where Old has the same. Processes that start meanwhile wait, or fail and try again. It needs
	// the rights of the owner of the tables.
	Rename(ctx context.Context, r Rename) (Renamed, error)

	// Examine tells what of the database stands against the promises, or against the load. It changes
	// nothing. What it may not look at it says in a finding; an error is an outage.
	Examine(ctx context.Context, e Exam) ([]skald.Finding, error)
}

// A Maintain says what Maintain is to keep, and under which lease.
type Maintain struct {
	Keep Retention
	// DryRun counts what would have gone if nobody were in the way, and what would be left, and why. It
	// changes nothing, keeps nobody waiting, and reads all that it counts.
	DryRun bool
	// Owner, if it is not empty, first takes the lease on the retention, or renews it, for Lease, by the
	// store's clock. If somebody else has it, Maintained.Other is true and nothing else happens.
	Owner string
	Lease time.Duration
	// Leave gives Owner's lease back, and does nothing else.
	Leave bool
}

// Recovered is what Recover did.
type Recovered struct {
	Moved      string // what was seen; "": nothing moved, nothing was done
	Covered    int64  // rows that stay as they are: acknowledged before the move
	Again      int64  // rows that are read again
	Renumbered int64  // of those, the ones whose number had been given out before
	Shards     int
	Raised     int // sequences that had not come to what consumers keep
}

// An Exam says what a database is to be ready for.
type Exam struct {
	// Server examines only the server or disk, without any of Skald's tables: sessions that wait for others,
	// forgotten transactions and slots, the disk. It answers while the tables are locked.
	Server bool

	Handle      time.Duration // how long a handler may take. Default 60 s
	Connections int           // how many connections all processes want together; 0: it is not asked
	Rate        float64       // messages a second; 0: it is not asked
}
