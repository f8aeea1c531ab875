package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/skald-go/skald/lock"
	"github.com/skald-go/skald/store/memstore"
)

// TestWorkKeep checks that work is done once while its scope keeps results, by the database's clock, and
// again after that.
func TestWorkKeep(t *testing.T) {
	now := time.Now()
	db := memstore.New(&memstore.Options{Now: func() time.Time { return now }})
	runs := 0
	do := func(scope string, keep time.Duration) (n int, replayed bool) {
		w := lock.Work{Scope: scope, Key: "k", Keep: keep,
			Entities: []lock.Entity{{Space: "order", Key: "42"}}}
		n, replayed, err := lock.Once(t.Context(), db, w,
			func(context.Context, *memstore.Tx, lock.Tokens) (int, error) {
				runs++
				return runs, nil
			})
		if err != nil {
			t.Fatal(err)
		}
		return n, replayed
	}
	day := 24 * time.Hour
	do("brief", day)
	do("long", 30*day)
	for _, c := range []struct {
		after time.Duration
		scope string
		keep  time.Duration
		n     int
		again bool
	}{{23 * time.Hour, "brief", day, 1, true}, {25 * time.Hour, "brief", day, 3, false},
		{25 * time.Hour, "long", 30 * day, 2, true}, {31 * day, "long", 30 * day, 4, false}} {
		began := now
		now = now.Add(c.after)
		if n, again := do(c.scope, c.keep); n != c.n || again != c.again {
			t.Errorf("%s after %v: run %d, replayed %v", c.scope, c.after, n, again)
		}
		now = began
	}
	if _, _, err := lock.Once(t.Context(), db,
		lock.Work{Scope: "s", Key: "k", Keep: -1, Entities: []lock.Entity{{Space: "order", Key: "42"}}},
		func(context.Context, *memstore.Tx, lock.Tokens) (int, error) { return 0, nil }); err == nil {
		t.Error("a Keep below 0 is accepted")
	}
}
