package store

import (
	"context"
	"time"
)

// A Tracker is the part of a Driver that keeps how choreographed sagas stand: one row for each saga of a
// flow. Flow and key are text without NUL, of at most 1 KiB each.
type Tracker[TTx any] interface {
	// LockTracked reads the rows of sagas in tx, whose keys are distinct, in any order, and makes those that
	// are not there, with an empty Body. Rivals wait until tx ends.
	LockTracked(ctx context.Context, tx TTx, flow string, keys ...string) ([]Tracked, error)
	// SaveTracked writes rows that LockTracked locked in tx.
	SaveTracked(ctx context.Context, tx TTx, rows ...Tracked) error
}

// A Tracked is how one saga of a flow stands.
type Tracked struct {
	Flow, Key string
	State     string    // a word of package flow
	Due       time.Time // the saga is overdue from then on, unless its row changes; zero: it never is
	Drift     int       // how many things are in it that the flow does not allow
	Body      string    // what was seen of the saga, as package flow encodes it

	// Only read.
	At      time.Time // when the saga was first heard of
	Changed time.Time // when its row was last written
	Drifted time.Time // when Drift last grew; zero: there is none
}

// A TrackedQuery chooses among tracked sagas. Zero fields choose all.
type TrackedQuery struct {
	Flow, Key, State string
	Overdue          bool // only those whose Due has passed, by the store's clock
	Limit            int  // at most; default 1,000
}

// ListTracked lists tracked sagas by key and flow. It is quick by Key.
func ListTracked(ctx context.Context, db Lister, q TrackedQuery) ([]Tracked, error) {
	l, err := db.List(ctx, List{Tracked: &q})
	return l.Tracked, err
}

// TrackedCounts is how many sagas of a flow stand how. Counted to 10,000 each.
type TrackedCounts struct {
	Flow                  string
	Running, Compensating int64
	Overdue               int64 // of them: those whose Due has passed
	Drifted               int64 // ended ones, too: those that drifted within the last day
	// a saga of each kind: the one that is due longest, and the last one that drifted
	OverdueKey, DriftedKey string
}
