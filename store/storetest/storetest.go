// Package storetest holds what every driver of the store promises, as tests: Run them all, and Differential
// compares a driver with the one in memory over random operations.
//
// A driver's own test makes a Harness:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, storetest.Harness[pgx.Tx]{Open: open, Can: storetest.Can[pgx.Tx]{Rivals: true, …}})
//	}
package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/skald-go/skald/store"
)

// Source is the source that every database of the suite is made with.
const Source = "/storetest"

// A Harness lets the suite reach a driver and, beside it, the database.
type Harness[TTx any] struct {
	// Open makes an empty database: the tables are there, Source is its source, it has 16 lanes. It goes with t.
	Open func(t testing.TB) Database[TTx]
	Can  Can[TTx]
	// Only those groups of tests; nil: all.
	Only []string
}

// Can says what really differs between databases. The zero value is the least.
type Can[TTx any] struct {
	// Rivals: transactions that touch different rows can be open at the same time. Without, a second one
	// waits for the first, whatever it touches, and the suite opens one at a time.
	Rivals bool
	// StopsCommit: Commit and Rollback of a lent transaction answer store.ErrLent and do nothing. Without,
	// Unit.Commit finds out.
	StopsCommit bool
	// Limits: the database itself refuses rows that break the limits of outbox.Write, by CHECKs for example.
	Limits bool
	// Poison makes a statement fail in tx in the way that aborts the whole transaction, and returns its error,
	// which the handler of the test will swallow. Nil: no error does that here.
	Poison func(tx TTx) error
	// Setting reads a setting of the database in tx, "" where it is not set. Nil: the database has none, and the driver
	// refuses them.
	Setting func(t testing.TB, tx TTx, name string) string
}

// A Database is what one Open made.
type Database[TTx any] interface {
	// Driver is the driver of another process each time: with a pool, a file handle, a session of its own.
	Driver(t testing.TB) store.Driver[TTx]

	// Begin opens a transaction of the caller's own, without Skald.
	Begin(t testing.TB) TTx
	// Commit and Rollback are the transaction's own, as a handler would call them too.
	Commit(tx TTx) error
	Rollback(tx TTx) error

	// Put writes a key of a table of the user's own, in tx.
	Put(tx TTx, key, value string) error
	// Get reads what is committed of it, on a connection of its own.
	Get(t testing.TB, key string) (value string, ok bool)
	// Count counts what is committed of Skald's, on a connection of its own.
	Count(t testing.TB) Counts

	// Age makes all outbox rows and steps look older by d to Maintain, and all marks whose id tells no time.
	Age(t testing.TB, d time.Duration)
	// Known makes Maintain believe that it has known for 40 days whoever has a mark.
	Known(t testing.TB)
}

// Counts is how many rows are there.
type Counts struct{ Rows, Marks, Aside, Audits int }

// Run runs the suite.
func Run[TTx any](t *testing.T, h Harness[TTx]) {
	for _, group := range []struct {
		name  string
		tests map[string]func(*suite[TTx])
	}{
		{"Unit", unitTests[TTx]()},
		{"Follow", followTests[TTx]()},
		{"Mark", markTests[TTx]()},
		{"Many", manyTests[TTx]()},
		{"Along", alongTests[TTx]()},
		{"Answer", answerTests[TTx]()},
		{"Quarantine", quarantineTests[TTx]()},
		{"Floor", floorTests[TTx]()},
		{"Step", stepTests[TTx]()},
		{"Lock", lockTests[TTx]()},
		{"Write", writeTests[TTx]()},
		{"Message", messageTests[TTx]()},
		{"Window", windowTests[TTx]()},
		{"Lane", laneTests[TTx]()},
		{"Aside", asideTests[TTx]()},
		{"Parked", parkedTests[TTx]()},
		{"Spot", spotTests[TTx]()},
		{"Kind", kindTests[TTx]()},
		{"Reseat", reseatTests[TTx]()},
		{"Maintain", maintainTests[TTx]()},
		{"Backlog", backlogTests[TTx]()},
		{"Oversee", overseeTests[TTx]()},
		{"Setting", settingTests[TTx]()},
		{"Field", fieldTests[TTx]()},
	} {
		if h.Only != nil && !slices.Contains(h.Only, group.name) {
			continue
		}
		t.Run(group.name, func(t *testing.T) {
			for _, name := range sorted(group.tests) {
				t.Run(name, func(t *testing.T) {
					db := h.Open(t)
					group.tests[name](&suite[TTx]{T: t, can: h.Can, db: db, d: db.Driver(t)})
				})
			}
		})
	}
}
