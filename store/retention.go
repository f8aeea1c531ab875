package store

import "time"

// Retention is how long rows are kept after they were published, and marks after their message was written.
// Marks must outlive the rows that could repeat their messages: less is a *RetentionError.
type Retention struct {
	Outbox time.Duration // default 7 days
	Marks  time.Duration // default 30 days
	// Steps is how long a step is kept after its saga began, and at least since it came: no saga may take
	// longer. Default 90 days.
	Steps time.Duration
	// Sagas is how long an orchestrated saga is kept after it ended, and its key with it. Default 30 days.
	Sagas time.Duration
}

// A Backlog is how an outbox stands.
type Backlog struct {
	Source string // of the messages of this database
	// rows that no relay has published, without those deferred; an estimate where they are many
	Pending  int64
	Oldest   time.Duration // since the oldest of them was written; 0: there is none
	Deferred int64         // rows deferred
	Retained time.Duration // since the oldest row that is kept was written; 0: there is none
	Free     int           // shards that no living relay holds
	Kept     []Kept        // for each consumer that something is kept for, by name

	Consumers []Consumer // all that were ever heard of, by name
	// Relays are those that own shards, dead ones too as long as no other has taken theirs, and live ones
	// whose broker does not answer; by name.
	Relays []RelayProgress

	Reserved []ReservedCounts // for each consumer that has reservations, by name

	Sagas   []SagaCounts    // orchestrated ones, by name: only if they were asked for
	Tracked []TrackedCounts // choreographed ones, by flow: as Sagas
	// Uncounted is why ReadBacklog could not count sagas. All else is told in any case.
	Uncounted error
}

// ReservedCounts are the reservations of a consumer, counted up to 10,000 in all. What became of the work of
// one that expired is not known: nobody has finished it, given it back or begun it again.
type ReservedCounts struct {
	Consumer      string
	Held, Expired int64
}

// A Kept is what a database keeps for a consumer because it could not be taken.
type Kept struct {
	Consumer string
	Keeping
	Conflicts, TooOld int64         // in quarantine, and not admitted
	Apart             time.Duration // since the oldest of these came; 0: there is none
	// Calls to the outside of which it is not settled what became of them, of dead letters too, and since
	// when the oldest of them was to be made; 0: there is none.
	Calls  int64
	Called time.Duration
}

// Maintained is what Maintain did.
type Maintained struct {
	Rows, Marks int64    // how many went, where the driver knows; -1: a leaf was emptied uncounted
	Steps       int64    // how many went
	Sagas       int64    // how many went
	Left        []string // what it could not have now, and why
	Other       bool     // somebody else has the lease on the retention: nothing was done
	More        bool     // there is more to delete than one call does: call again
}
