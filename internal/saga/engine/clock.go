// This file estimates the time of the store's clock, which sagas use for waits and ends.

package engine

import (
	"sync/atomic"
	"time"
)

// storeClock is an estimate of the store's clock.
type storeClock struct {
	local func() time.Time
	ahead atomic.Int64
}

// newClock returns a clock that shows the local time until the store's time is read.
func newClock(local func() time.Time) *storeClock { return &storeClock{local: local} }

// Now returns the store's time.
func (c *storeClock) Now() time.Time { return c.local().Add(time.Duration(c.ahead.Load())).UTC() }

// Observed sets the store's current time.
func (c *storeClock) Observed(at time.Time) {
	if !at.IsZero() {
		c.ahead.Store(int64(at.Sub(c.local())))
	}
}

// Read sets the store's time at some moment between the local times from and to. It keeps the earlier
// offset as far as possible.
func (c *storeClock) Read(at, from, to time.Time) {
	if !at.IsZero() {
		c.ahead.Store(int64(min(max(time.Duration(c.ahead.Load()), at.Sub(to)), at.Sub(from))))
	}
}
