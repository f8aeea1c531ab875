package store

import (
	"context"
	"time"
)

// An Overseer is what several processes need to see to one database: who does it, and what it goes by.
type Overseer interface {
	// Own takes the lease on what for owner, or renews it, by the store's clock, and tells whether it is owner's now. With
	// a ttl of 0 it gives the lease back.
	Own(ctx context.Context, what, owner string, ttl time.Duration) (mine bool, err error)

	// Keeps tells what retention Maintain last went by, of rows and marks. Zero: none ever did.
	Keeps(ctx context.Context) (Retention, error)
}

// Retention is how long rows are kept after they were published, and marks after their message was written. Marks
// must outlive the rows that could repeat their messages: less is a *RetentionError.
type Retention struct {
	Outbox time.Duration // default 7 days
	Marks  time.Duration // default 30 days
	// Steps is how long a step is kept after its saga began, and at least since it came: no saga may take longer. Default 90 days.
	Steps time.Duration
}

// A Forecaster is a Store that can tell what Maintain would do.
type Forecaster interface {
	// Forecast counts what Maintain would have gone by keep, if it were called now and nobody were in its way, and what it would
	// leave, and why. It changes nothing, keeps nobody waiting, and reads all that it counts.
	Forecast(ctx context.Context, keep Retention) (Maintained, error)
}

// A Backlog is how an outbox stands.
type Backlog struct {
	Source   string        // of the messages of this database
	Pending  int64         // rows that no relay has published, without those set aside; an estimate where they are many
	Oldest   time.Duration // since the oldest of them was written; 0: there is none
	Aside    int64         // rows set aside
	Retained time.Duration // since the oldest row that is kept was written; 0: there is none
	Free     int           // lanes that no living relay holds
	Kept     []Kept        // for each consumer that something is kept for, by name
}

// A Kept is what a database keeps for a consumer because it could not be taken.
type Kept struct {
	Consumer string
	Keeping
	Conflicts, TooOld int64         // in quarantine, and not admitted
	Apart             time.Duration // since the oldest of these came; 0: there is none
	// Calls to the outside of which it is not settled what became of them, of dead letters too, and since when the oldest of them
	// was to be made; 0: there is none.
	Calls  int64
	Called time.Duration
}

// Maintained is what Maintain did.
type Maintained struct {
	Rows, Marks int64    // how many went, where the driver knows; -1: a leaf was emptied uncounted
	Steps       int64    // how many went
	Left        []string // what it could not have now, and why
	More        bool     // there is more to delete than one call does: call again
}
