package sagatest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/skald-go/skald/sagatest"
)

// placed is a world on a database, and its rest before the final checks.
type placed struct {
	build func(*sagatest.World) error
	rest  time.Duration
}

// consumers are the worlds with one consumer, by topic, on any database. The world of
// TestExploreCallsOfADeadProcess is missing, because its leases must use the world's clock.
func consumers[TTx any](on opening[TTx]) map[string]placed {
	all := map[string]placed{
		// with dead letters and a redrive
		"parking":                          {buildParking(on, nil, false, 1), 40 * time.Second},
		"parking where keys are freed":     {buildParking(on, nil, true, 1), 40 * time.Second},
		"batches":                          {buildParking(on, nil, false, 5), 40 * time.Second},
		"batches where keys are freed":     {buildParking(on, nil, true, 5), 40 * time.Second},
		"riders":                           {buildRiding(on, nil), 40 * time.Second},
		"steps":                            {buildBarring(on, nil), 40 * time.Second},
		"calls":                            {buildCalls(on, nil), 60 * time.Second},
		"undoing by calls":                 {buildRefunding(on, nil), 60 * time.Second},
		"identity, quarantine and answers": {buildDesk(on, nil), deskRest},
	}
	for rounds := range 4 {
		all[fmt.Sprint("redrives beside calls, ", rounds, " rounds")] = placed{buildRedriving(on, rounds),
			60 * time.Second}
	}
	return all
}

// TestExploreOnSQLite injects a sample of faults into the worlds with one consumer, on SQLite.
// Interleavings 1, 4, 8, 12, 14.
func TestExploreOnSQLite(t *testing.T) {
	for name, c := range consumers(onSQLite(t)) {
		t.Run(name, func(t *testing.T) { sagatest.Explore(t, c.build, sampleOnSQLite(c.rest)) })
	}
}

// TestExploreOnPostgreSQL is the same on PostgreSQL, where a process may also pause within a transaction.
// Interleavings 1, 4, 8, 12, 14.
func TestExploreOnPostgreSQL(t *testing.T) {
	t.Parallel()
	for name, c := range consumers(onPostgres(t)) {
		t.Run(name, func(t *testing.T) {
			sagatest.Explore(t, c.build, &sagatest.Options{
				Modes: []sagatest.Mode{sagatest.CrashBefore, sagatest.CrashAfter, sagatest.ErrorAfter,
					sagatest.PartFirst, sagatest.Pause},
				// the server takes the time, with the race detector and without
				Rest: c.rest, Sample: several(12, 40), Failures: 3,
			})
		})
	}
}
