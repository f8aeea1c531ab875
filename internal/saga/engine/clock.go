// This file tells the time of the store, by which sagas wait and end.

package engine

import (
	"sync/atomic"
	"time"
)

// A storeClock is the store's, as far as this process knows it.
type storeClock struct {
	local func() time.Time
	ahead atomic.Int64
}

// newClock is the store's clock before anything was seen of it: the process's own.
func newClock(local func() time.Time) *storeClock { return &storeClock{local: local} }

// Now is what the store's clock shows.
func (c *storeClock) Now() time.Time { return c.local().Add(time.Duration(c.ahead.Load())).UTC() }

// Saw notes what the store's clock shows now.
func (c *storeClock) Saw(at time.Time) {
	if !at.IsZero() {
		c.ahead.Store(int64(at.Sub(c.local())))
	}
}

// Read notes what it showed at some time between two of this process: how far off it is stays as it was
// believed, as far as that can be.
func (c *storeClock) Read(at, from, to time.Time) {
	if !at.IsZero() {
		c.ahead.Store(int64(min(max(time.Duration(c.ahead.Load()), at.Sub(to)), at.Sub(from))))
	}
}
