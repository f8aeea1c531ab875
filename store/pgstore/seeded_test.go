package pgstore

import (
	"context"
	"errors"
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/internal/seeded"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/storetest"
)

// mutant is the driver with one bug: changed statements, or wrong classifications of errors.
type mutant struct {
	bug        string
	finds      string // the group and the test of the suite that must fail
	says       string // a pattern for the output of that test
	from, into string // a pattern in each statement, and its replacement
	outage     func(err error) bool
	unitOutage func(err error) bool
}

// Families of bugs that no test suite found at first: a size in bytes, a clock that is wrong or goes back,
// an error that is classified wrongly.
var mutants = []mutant{
	{bug: "bytes: a page of the outbox ends by its rows", finds: "Window/Bytes", says: `page 0 has \d+ rows`,
		from: `\b(o|w)\.upto <= \d+`, into: `$1.upto IS NOT NULL`},
	{bug: "bytes: a page of deferred rows ends by its rows", finds: "Deferred/Bytes",
		says: `one page has \d+ rows of \d+ bytes`,
		from: `w\.size::integer ELSE 0 END\) OVER \(`, into: `0 ELSE 0 END) OVER (`},
	{bug: "bytes: a claim ends by its messages", finds: "Prefetch/Bytes", says: `claim 0 has \d+ messages`,
		from: `bytes \+ coalesce\(octet_length\(envelope\), 0\) AS size`, into: `0 AS size`},
	{bug: "bytes: what is read along is not counted", finds: "Prefetch/Bytes",
		says: `\d+ messages of one key .* read along`,
		from: `b\.bytes \+ coalesce\(octet_length\(b\.envelope\), 0\)`, into: `0`},

	{bug: "clock: a mark is as old as its producer says", finds: "Clock/Producers", says: `found \[`,
		from: `greatest\((to_timestamp\(\S+ / 1000\.0\)), clock_timestamp\(\)\)`,
		into: `CASE WHEN $1 < to_timestamp(1) THEN clock_timestamp() ELSE $1 END`},
	{bug: "clock: a mark is as old as its arrival", finds: "Clock/Producers", says: `found \[`,
		from: `greatest\(to_timestamp\(\S+ / 1000\.0\), clock_timestamp\(\)\)`, into: `clock_timestamp()`},
	{bug: "clock: a floor goes back", finds: "Clock/FloorStays", says: `found \[fresh\], want \[too old\]`,
		from: `at = greatest\(f\.at, EXCLUDED\.at\)`, into: `at = EXCLUDED.at`},

	{bug: "error: a handler's error is the transaction's", finds: "Unit/OutageIsItsOwn",
		says:       `is taken for the unit's own`,
		unitOutage: func(err error) bool { return err != nil }},
	{bug: "error: a deadline is the database's", finds: "Unit/OutageIsItsOwn",
		says:       `deadline exceeded is taken for the unit's own`,
		unitOutage: func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }},
	{bug: "error: each error is an outage", finds: "Unit/Empty", says: `what is no outage is called one`,
		outage: func(err error) bool { return err != nil }},

	{bug: "sagas: a claim fences nobody off", finds: "SagaClaim/Fences",
		says: `stored \[true\], want \[false\]`,
		from: `SET version = s\.version \+ 1, session =`, into: `SET session =`},
}

// TestMutant runs the suite on the mutant that the process is to have.
func TestMutant(t *testing.T) {
	for _, m := range mutants {
		if m.bug == seeded.Bug() {
			need.Postgres(t)
			b := newBed(t)
			h := harnessOf(b, pgx.QueryExecModeCacheStatement)
			open := h.Open
			h.Open = func(t testing.TB) storetest.Database[pgx.Tx] { return mutated{open(t).(seat), m} }
			storetest.Run(t, h)
			return
		}
	}
	t.Skip("TestFamiliesOfBugs runs this test, in processes with a bug")
}

// TestFamiliesOfBugs checks that the suite finds each mutant.
func TestFamiliesOfBugs(t *testing.T) {
	t.Parallel()
	need.Postgres(t)
	for _, m := range mutants {
		t.Run(m.bug, func(t *testing.T) {
			t.Parallel()
			seeded.Find(t, m.bug, "^TestMutant$/"+m.finds, m.says)
		})
	}
}

// mutated is a database whose drivers have the bug.
type mutated struct {
	seat
	m mutant
}

func (d mutated) Driver(t testing.TB) store.Driver[pgx.Tx] {
	s := d.storeIn(t, d.mode)
	if d.m.from != "" {
		pattern, hit := regexp.MustCompile(d.m.from), false
		for name, sql := range s.pg.SQL {
			s.pg.SQL[name] = pattern.ReplaceAllString(sql, d.m.into)
			hit = hit || s.pg.SQL[name] != sql
		}
		if !hit {
			t.Fatalf("no statement has %q", d.m.from)
		}
	}
	return wrongly{s, d.m}
}

// wrongly classifies errors as the mutant does.
type wrongly struct {
	*Store
	m mutant
}

func (w wrongly) Outage(err error) bool {
	if w.m.outage == nil {
		return w.Store.Outage(err)
	}
	return w.m.outage(err)
}

func (w wrongly) Begin(ctx context.Context, in store.Intake) (store.Unit[pgx.Tx], error) {
	u, err := w.Store.Begin(ctx, in)
	if err != nil || w.m.unitOutage == nil {
		return u, err
	}
	return wrongUnit{u, w.m}, nil
}

type wrongUnit struct {
	store.Unit[pgx.Tx]
	m mutant
}

func (u wrongUnit) Outage(_ context.Context, err error) bool { return u.m.unitOutage(err) }
