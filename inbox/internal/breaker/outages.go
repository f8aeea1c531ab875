package breaker

import (
	"time"

	"github.com/skald-go/skald/internal/backoff"
)

// A Gate lets one message at a time through while everything that is tried ends in an outage, so that a
// database that is away is not asked by every key that waits. Its zero value is open.
type Gate struct {
	outages int
	until   time.Time
}

const gateOpen = 8 // outages in a row that are still taken for chance: deadlocks, rivals

// Note counts how an attempt ended.
func (g *Gate) Note(outage bool, now time.Time) {
	if !outage {
		*g = Gate{}
		return
	}
	if g.outages++; g.outages > gateOpen {
		g.until = now.Add(backoff.After(g.outages-gateOpen, 100*time.Millisecond, 5*time.Second))
	}
}

// Closed says for how long nothing should be tried, and whether what is tried then should be tried alone.
func (g *Gate) Closed(now time.Time) (wait time.Duration, alone bool) {
	return max(0, g.until.Sub(now)), g.outages > gateOpen
}
