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

// Observed sets the clock to dbTime, the database's current time.
func (c *storeClock) Observed(dbTime time.Time) {
	if !dbTime.IsZero() {
		c.ahead.Store(int64(dbTime.Sub(c.local())))
	}
}

// Read adjusts the clock to dbTime. The database returned this time between the local times sent and
// received. Read changes the offset only as far as necessary.
func (c *storeClock) Read(dbTime, sent, received time.Time) {
	if !dbTime.IsZero() {
		c.ahead.Store(int64(min(max(time.Duration(c.ahead.Load()), dbTime.Sub(received)), dbTime.Sub(sent))))
	}
}
