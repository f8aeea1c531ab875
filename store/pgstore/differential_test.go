package pgstore

import (
	"flag"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store/storetest"
)

// TestDifferential compares PostgreSQL with the store in memory, with random operations.
func TestDifferential(t *testing.T) {
	need.Postgres(t)
	fewChecks(t)
	storetest.Differential(t, harnessOf(newBed(t), pgx.QueryExecModeCacheStatement))
}

func TestLines(t *testing.T) {
	t.Parallel()
	need.Postgres(t)
	storetest.Lines(t, harnessOf(newBed(t), pgx.QueryExecModeCacheStatement))
}

// fewChecks reduces rapid's default number of checks, unless the command line sets it, because each check
// needs new tables.
func fewChecks(t *testing.T) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	if was := checks.Value.String(); was == checks.DefValue {
		if err := flag.Set("rapid.checks", "12"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = flag.Set("rapid.checks", was) })
	}
}
