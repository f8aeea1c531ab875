package sagatest_test

import (
	"testing"
	"time"

	"github.com/skald-go/skald/sagatest"
)

// The worlds of parking, batches, steps, calls and identity on SQLite: a fixed sample of their faults.
// Interleavings 1, 4, 8, 12, 14.
func TestExploreOnSQLite(t *testing.T) {
	on := onSQLite(t)
	for name, c := range map[string]struct {
		build func(*sagatest.World) error
		rest  time.Duration
	}{
		"parking":                          {buildParking(on, nil, false, 1), 40 * time.Second},
		"parking where keys are freed":     {buildParking(on, nil, true, 1), 40 * time.Second},
		"batches":                          {buildParking(on, nil, false, 5), 40 * time.Second},
		"batches where keys are freed":     {buildParking(on, nil, true, 5), 40 * time.Second},
		"riders":                           {buildRiding(on, nil), 40 * time.Second},
		"steps":                            {buildBarring(on, nil), 40 * time.Second},
		"calls":                            {buildCalls(on, nil), 60 * time.Second},
		"identity, quarantine and answers": {buildDesk(on, nil), deskRest},
	} {
		t.Run(name, func(t *testing.T) { sagatest.Explore(t, c.build, sampleOnSQLite(c.rest)) })
	}
}
