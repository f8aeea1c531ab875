// This file bounds calls to a server: a Breaker admits a number of calls at a time. After failures in a row
// it admits none for a while, then one as a probe.

package vitals

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

// A Pass is a call that was let in. End it once, by Leave or Abandon.
type Pass struct {
	b   *Breaker
	try bool // it is the one that tries an open breaker
}

// Enter lets a call begin. Nil: it does not, and says how long not to ask; 0: others are at it now.
func (b *Breaker) Enter(now time.Time) (p *Pass, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	open := b.failures >= b.Trip
	switch {
	case open && now.Before(b.until):
		return nil, b.until.Sub(now)
	case open && b.trying:
		return nil, b.Rest
	case b.running >= b.Limit:
		return nil, 0
	}
	b.running++
	b.trying = b.trying || open
	return &Pass{b, open}, 0
}

// Leave ends a call: failed, if it is not known what became of it. A failure that began before the breaker
// opened changes nothing any more.
func (p *Pass) Leave(failed bool, now time.Time) (opened bool) {
	b := p.b
	b.mu.Lock()
	defer b.mu.Unlock()
	p.end()
	switch {
	case !failed:
		b.failures = 0
		return false
	case b.failures >= b.Trip && !p.try:
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

// Abandon ends a call that says nothing about the provider.
func (p *Pass) Abandon() {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	p.end()
}

// end takes p out. Only the call that tries makes room for the next one that does.
func (p *Pass) end() {
	p.b.running--
	if p.try {
		p.b.trying = false
	}
}
