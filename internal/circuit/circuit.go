// Package circuit keeps calls away from what does not answer: at most so many at a time, and after so many failures in a row
// none for a while, then one to see.
package circuit

import (
	"sync"
	"time"
)

// A Breaker bounds the calls to one provider. Its zero value lets none through.
type Breaker struct {
	Limit int           // calls at a time
	Trip  int           // failures in a row after which it is open
	Rest  time.Duration // for which it is open

	mu       sync.Mutex
	running  int
	failures int
	until    time.Time // open until then; then one call tries
	trying   bool
}

// Enter lets a call begin: then Leave must follow. Else it says how long not to ask; 0: others are at it now.
func (b *Breaker) Enter(now time.Time) (ok bool, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	open := b.failures >= b.Trip
	switch {
	case open && now.Before(b.until):
		return false, b.until.Sub(now)
	case open && b.trying:
		return false, b.Rest
	case b.running >= b.Limit:
		return false, 0
	}
	b.running++
	b.trying = open
	return true, 0
}

// Leave ends a call: failed, if it is not known what became of it.
func (b *Breaker) Leave(failed bool, now time.Time) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running--
	if !failed {
		b.failures, b.trying = 0, false
		return false
	}
	b.failures++
	if b.failures < b.Trip {
		return false
	}
	opened = b.failures == b.Trip
	b.until, b.trying = now.Add(b.Rest), false
	return opened
}

// Abandon ends a call that says nothing about the provider.
func (b *Breaker) Abandon() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running--
	b.trying = false
}
