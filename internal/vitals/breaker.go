// This file limits calls to a server. A Breaker admits a number of calls at a time. After consecutive
// failures it admits none for a while, then one as a probe.

package vitals

import (
	"sync"
	"time"
)

// Breaker limits the calls to one provider. Its zero value admits none.
type Breaker struct {
	Limit int           // concurrent calls
	Trip  int           // consecutive failures that open it
	Rest  time.Duration // how long it stays open

	mu       sync.Mutex
	running  int
	failures int
	until    time.Time // open until then; after that it admits one call as a probe
	probing  bool
}

// Pass is an admitted call. End it once, by Leave or Abandon.
type Pass struct {
	b     *Breaker
	probe bool // the probe of an open breaker
}

// Enter admits a call, or returns nil and the time until the next attempt. A time of 0 means that Limit is
// reached.
func (b *Breaker) Enter(now time.Time) (p *Pass, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	open := b.failures >= b.Trip
	switch {
	case open && now.Before(b.until):
		return nil, b.until.Sub(now)
	case open && b.probing:
		return nil, b.Rest
	case b.running >= b.Limit:
		return nil, 0
	}
	b.running++
	b.probing = b.probing || open
	return &Pass{b, open}, 0
}

// Leave ends a call. Failed means that its outcome is unknown. A failed call that began before the breaker
// opened is ignored. Opened reports that this failure opened the breaker.
func (p *Pass) Leave(failed bool, now time.Time) (opened bool) {
	b := p.b
	b.mu.Lock()
	defer b.mu.Unlock()
	p.end()
	switch {
	case !failed:
		b.failures = 0
		return false
	case b.failures >= b.Trip && !p.probe:
		return false
	}
	b.failures++
	if b.failures < b.Trip {
		return false
	}
	opened = b.failures == b.Trip
	b.until = now.Add(b.Rest)
	return opened
}

// Abandon ends a call without a result for the breaker.
func (p *Pass) Abandon() {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	p.end()
}

// end removes p. Only the end of a probe allows the next probe.
func (p *Pass) end() {
	p.b.running--
	if p.probe {
		p.b.probing = false
	}
}
