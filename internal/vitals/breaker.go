package vitals

import (
	"sync"
	"time"
)

// Breaker is a circuit breaker that also limits the concurrent calls to one server. After Trip consecutive
// failures it is open: it admits no call for the time Rest, and then one call as a probe. If the probe
// succeeds, the breaker closes. The zero Breaker admits no calls.
type Breaker struct {
	Limit int           // the maximum number of concurrent calls
	Trip  int           // the number of consecutive failures that opens the breaker
	Rest  time.Duration // the time for which the breaker stays open

	mu       sync.Mutex
	running  int
	failures int
	until    time.Time // the breaker is open until this time, and then admits a probe
	probing  bool
}

// Pass is an admitted call. End it with Leave or Abandon, once.
type Pass struct {
	b     *Breaker
	probe bool // the call is the probe of an open breaker
}

// Enter admits a call. If it does not admit the call, it returns nil and the time until the next attempt. A
// time of 0 means that Limit is reached.
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

// Leave ends a call. The argument failed means that the outcome of the call is unknown. Leave ignores the
// failure of a call that began before the breaker opened. The result opened reports whether this failure
// opened the breaker.
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

// Abandon ends a call that counts neither as success nor as failure.
func (p *Pass) Abandon() {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	p.end()
}

// end removes p from the running calls. The breaker admits no second probe before the first one has ended.
func (p *Pass) end() {
	p.b.running--
	if p.probe {
		p.b.probing = false
	}
}
