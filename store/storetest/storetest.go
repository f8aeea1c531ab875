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
	"hash/fnv"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/skald-go/skald/store"
)

// Source is the source that every database of the suite is made with.
const Source = "/storetest"

// Harness lets the suite reach a driver and, beside it, the database.
type Harness[TTx any] struct {
	// Open makes an empty database: the tables are there, Source is its source, it has 16 shards. It goes
	// with t.
	Open func(t testing.TB) Database[TTx]
	Can  Can[TTx]
	// Only those groups of tests; nil: all.
	Only []string
	// Sample runs one test in so many, chosen by its name, for a driver that differs in little from one that
	// runs them all. 0, and where SKALD_EXPLORE is full or all: every test.
	Sample int
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
	// Poison makes a statement fail in tx in the way that aborts the whole transaction, and returns its
	// error, which the handler of the test will swallow. Nil: no error does that here.
	Poison func(tx TTx) error
	// Anew ends tx by statements and begins another in its place, in each way that the database has. Nil:
	// there is none.
	Anew []func(tx TTx) error
	// Pool is a driver of another process whose pool has that many connections. Nil: there is no pool to
	// bound.
	Pool func(t testing.TB, db Database[TTx], connections int) store.Driver[TTx]
	// Setting reads a setting of the database in tx, "" where it is not set. Nil: the database has none, and
	// the driver refuses them.
	Setting func(t testing.TB, tx TTx, name string) string
	// Statement carries out sql in tx, in which {name} is a table of Skald's. Nil: the database has no SQL.
	Statement func(db Database[TTx], tx TTx, sql string) error
	// Nest begins a transaction in tx, which Database.Commit and Rollback end. Nil: tx has no such call.
	Nest func(tx TTx) (TTx, error)
	// Raw carries out sql, like Statement, by the connection below tx. Nil: tx does not expose it.
	Raw func(tx TTx, sql string) error
}

// Database is what one Open made.
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

	// Age makes all that is there look to Maintain and Backlog as if it had come d earlier.
	Age(t testing.TB, d time.Duration)
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
				if !h.takes(t.Name() + "/" + name) {
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

// takes reports whether the sample has the test: always the same ones, so that no run fails by its draw.
func (h Harness[TTx]) takes(test string) bool {
	if explore := os.Getenv("SKALD_EXPLORE"); h.Sample < 2 || explore == "full" || explore == "all" {
		return true
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(test))
	return sum.Sum32()%uint32(h.Sample) == 0
}
