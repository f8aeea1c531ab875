package store

import (
	"context"
	"time"
)

// Tracker is the part of a Driver that stores choreographed sagas, one row for each saga of a flow. Flow and
// key are text without NUL, at most 1 KiB each. To change a row, write an Effect.
type Tracker[TTx any] interface {
	Outbox[TTx]

	// LockTracked reads and locks the rows of sagas in tx, and creates missing rows with an empty Body. The
	// keys must be distinct, in any order. Concurrent transactions wait for these rows until tx ends.
	LockTracked(ctx context.Context, tx TTx, flow string, keys ...string) ([]Tracked, error)
}

// Tracked is the stored state of one saga of a flow.
type Tracked struct {
	Flow, Key string
	State     string    // a state of package flow
	Due       time.Time // the saga is overdue after this time, unless its row changes; zero means never
	Drift     int       // violations of the flow
	Body      string    // the events seen, as package flow encodes them

	// At and the fields below are set by drivers on reading.
	At      time.Time // when the row was created
	Changed time.Time // when the row was last written
	Drifted time.Time // when Drift last increased; zero if Drift is 0
}

// TrackedQuery selects tracked sagas. Zero fields select all.
type TrackedQuery struct {
	Flow, Key, State string
	Overdue          bool // only sagas that are past Due, by the store's clock
	Limit            int  // default 1,000
}

// ListTracked lists tracked sagas by key and flow. An index supports Key.
func ListTracked(ctx context.Context, db Lister, q TrackedQuery) ([]Tracked, error) {
	l, err := db.List(ctx, List{Tracked: &q})
	return l.Tracked, err
}

// TrackedCounts counts the sagas of a flow by state, up to 10,000 each.
type TrackedCounts struct {
	Flow                  string
	Running, Compensating int64
	Overdue               int64 // running or compensating, and past Due
	Drifted               int64 // sagas that drifted within the last day, including ended ones
	// OverdueKey is the key of the saga that has been due for the longest time, DriftedKey that of the saga
	// that drifted last.
	OverdueKey, DriftedKey string
}
