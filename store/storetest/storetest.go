// Package storetest tests the contract of every driver. Run runs all tests. Differential compares a driver
// with the one in memory, with random operations.
//
// A driver's own test makes a Harness:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, storetest.Harness[pgx.Tx]{Open: open, Can: storetest.Can[pgx.Tx]{Rivals: true, …}})
//	}
package storetest

import (
	"hash/fnv"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/skald-go/skald/store"
)

// Source is the source of every database of the suite.
const Source = "/storetest"

// Harness gives the suite access to a driver and to its database.
type Harness[TTx any] struct {
	// Open creates an empty database with tables, the source Source and 16 shards. It is removed with t.
	Open func(t testing.TB) Database[TTx]
	Can  Can[TTx]
	// Only selects groups of tests; nil selects all.
	Only []string
	// Sample runs one of every Sample tests, selected by name. It is for a driver that differs little from
	// another driver that runs all tests. 0 runs every test, and so does SKALD_EXPLORE=full or all.
	Sample int
}

// Can lists real differences between databases. The zero value is the least capable one.
type Can[TTx any] struct {
	// Rivals reports that transactions on different rows can be open at the same time. Otherwise a second
	// transaction waits for the first one, so the suite opens only one at a time.
	Rivals bool
	// StopsCommit reports that Commit and Rollback of a lent transaction return store.ErrLent and do nothing.
	// Otherwise Unit.Commit detects these calls.
	StopsCommit bool
	// Limits reports that the database itself refuses rows that exceed the limits of outbox.Write, for
	// example by CHECK constraints.
	Limits bool
	// Poison runs a statement in tx that fails and so aborts the whole transaction. It returns the error of
	// the statement, and the test's handler ignores it. Nil means that no error aborts a transaction.
	Poison func(tx TTx) error
	// Anew has a function for each way in which the database can end tx by statements and begin another
	// transaction in its place. Nil means that there is no such way.
	Anew []func(tx TTx) error
	// Pool opens a driver of another process with a pool of this number of connections. Nil means that there
	// is no pool to limit.
	Pool func(t testing.TB, db Database[TTx], connections int) store.Driver[TTx]
	// Setting reads a setting of the database in tx, "" if it is not set. Nil means that the database has
	// no settings and the driver refuses them.
	Setting func(t testing.TB, tx TTx, name string) string
	// Statement runs sql in tx, in which {name} is a table of Skald. Nil means that the database has no
	// SQL.
	Statement func(db Database[TTx], tx TTx, sql string) error
	// Nest begins a nested transaction in tx. Database.Commit and Rollback end the nested transaction. Nil
	// means that tx cannot have nested transactions.
	Nest func(tx TTx) (TTx, error)
	// Raw runs sql as Statement does, on the connection below tx. Nil means that tx does not expose its
	// connection.
	Raw func(tx TTx, sql string) error
}

// Database is a database that Open created.
type Database[TTx any] interface {
	// Driver returns the driver of another process at each call, with its own pool, file handle or session.
	Driver(t testing.TB) store.Driver[TTx]

	// Begin opens a transaction of the caller, without Skald.
	Begin(t testing.TB) TTx
	// Commit calls the transaction's own Commit, as a handler could. Rollback does the same with the
	// transaction's own Rollback.
	Commit(tx TTx) error
	Rollback(tx TTx) error

	// Put writes a key of the user's table, in tx.
	Put(tx TTx, key, value string) error
	// Get reads the committed value of a key, on another connection.
	Get(t testing.TB, key string) (value string, ok bool)
	// Count counts Skald's committed rows, on another connection.
	Count(t testing.TB) Counts

	// Age makes all data appear d older to Maintain and Backlog.
	Age(t testing.TB, d time.Duration)
}

// Counts has the numbers of rows in Skald's tables.
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
		{"Apply", applyTests[TTx]()},
		{"Prefetch", alongTests[TTx]()},
		{"Answer", answerTests[TTx]()},
		{"Reservation", reservationTests[TTx]()},
		{"Quarantine", quarantineTests[TTx]()},
		{"Floor", floorTests[TTx]()},
		{"Keep", keepTests[TTx]()},
		{"Step", stepTests[TTx]()},
		{"Lock", lockTests[TTx]()},
		{"Saga", sagaTests[TTx]()},
		{"SagaClaim", sagaClaimTests[TTx]()},
		{"SagaHold", sagaHoldTests[TTx]()},
		{"Write", writeTests[TTx]()},
		{"Message", messageTests[TTx]()},
		{"Window", windowTests[TTx]()},
		{"Shard", shardTests[TTx]()},
		{"Deferred", asideTests[TTx]()},
		{"Operator", operatorTests[TTx]()},
		{"Parked", parkedTests[TTx]()},
		{"Checkpoint", checkpointTests[TTx]()},
		{"Kind", kindTests[TTx]()},
		{"PayloadSchema", payloadSchemaTests[TTx]()},
		{"Payload", payloadTests[TTx]()},
		{"Rename", renameTests[TTx]()},
		{"Recover", recoverTests[TTx]()},
		{"Maintain", maintainTests[TTx]()},
		{"Clock", clockTests[TTx]()},
		{"Backlog", backlogTests[TTx]()},
		{"Oversee", overseeTests[TTx]()},
		{"Setting", settingTests[TTx]()},
		{"Field", fieldTests[TTx]()},
		{"Hostile", hostileTests[TTx]()},
		{"OddName", oddNameTests[TTx]()},
	} {
		if h.Only != nil && !slices.Contains(h.Only, group.name) {
			continue
		}
		t.Run(group.name, func(t *testing.T) {
			for _, name := range sorted(group.tests) {
				if !h.inSample(t.Name() + "/" + name) {
					continue
				}
				t.Run(name, func(t *testing.T) {
					db := h.Open(t)
					group.tests[name](&suite[TTx]{T: t, can: h.Can, db: db, d: db.Driver(t)})
				})
			}
		})
	}
}

// inSample reports whether the sample includes the test. The selection is the same in each run, so no run
// fails by chance.
func (h Harness[TTx]) inSample(test string) bool {
	if explore := os.Getenv("SKALD_EXPLORE"); h.Sample < 2 || explore == "full" || explore == "all" {
		return true
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(test))
	return sum.Sum32()%uint32(h.Sample) == 0
}
