// This file estimates the time of the database's clock. Sagas use it for waits and deadlines.

package engine

import (
	"sync/atomic"
	"time"
)

// storeClock is an estimate of the database's clock.
type storeClock struct {
	local func() time.Time
	ahead atomic.Int64
}

// newClock returns a clock that shows the local time until the database's time is read.
func newClock(local func() time.Time) *storeClock { return &storeClock{local: local} }

// Now returns the estimated time of the database.
func (c *storeClock) Now() time.Time { return c.local().Add(time.Duration(c.ahead.Load())).UTC() }

// Observed sets the clock to at, the database's current time.
func (c *storeClock) Observed(at time.Time) {
	if !at.IsZero() {
		c.ahead.Store(int64(at.Sub(c.local())))
	}
}

// Read adjusts the clock to a time that the database returned between the local times from and to. It changes
// the offset only as far as necessary.
func (c *storeClock) Read(at, from, to time.Time) {
	if !at.IsZero() {
		c.ahead.Store(int64(min(max(time.Duration(c.ahead.Load()), at.Sub(to)), at.Sub(from))))
	}
}
