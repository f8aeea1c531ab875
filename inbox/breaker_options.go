package inbox

import (
	"cmp"
	"time"
)

// A Breaker stops the consumer where many messages fail in one way, instead of letting a topic drain into the
// dead letters: it takes nothing for a while, then one message, and goes on once one succeeds. Failures of
// one way have the same fingerprint; each message counts once, whatever is tried with it later. An outage is
// none. What was received stays unacknowledged meanwhile.
//
// Malformed messages and records that are too large do not count. They become dead letters one by one, so
// that no producer can stop a consumer.
type Breaker struct {
	// Off: it never stops.
	Off bool
	// Share of the messages of a Window that must fail in one way, and Least how many of them. Defaults 0.5
	// and 50 in a minute.
	Share  float64
	Least  int
	Window time.Duration
	// Rest is how long nothing is taken before one message is tried: doubled, up to 16 times as long, while
	// that fails. Default 30 s.
	Rest time.Duration
}

func (b Breaker) orDefaults() Breaker {
	b.Share = cmp.Or(b.Share, 0.5)
	b.Least = max(1, cmp.Or(b.Least, 50))
	b.Window = cmp.Or(b.Window, time.Minute)
	b.Rest = cmp.Or(b.Rest, 30*time.Second)
	return b
}
