// This file stops a consumer of which many messages fail in one way.

package inbox

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
)

const (
	breakerParts = 6 // of a window
	mostRests    = 4 // doublings
)

// A tally counts the messages of a part of the window.
type tally struct {
	all   int
	kinds map[string]int // those that failed, by fingerprint
}

// A consumerBreaker stops a consumer. It belongs to one goroutine.
type consumerBreaker struct {
	o     Breaker
	parts []tally   // the last one is being counted
	began time.Time // the last one

	why   string    // it is open; "": it is not
	until time.Time // nothing is taken
	rests int
	probe *partition.Entry // the one that is tried
}

// newBreaker is a Breaker that is closed.
func newBreaker(o Breaker) *consumerBreaker { return &consumerBreaker{o: o} }

// Reset closes it, and forgets what was counted.
func (b *consumerBreaker) Reset() { *b = consumerBreaker{o: b.o} }

// Why it is open; "": it is not.
func (b *consumerBreaker) Why() string { return b.why }

// Until is the time before which nothing is taken.
func (b *consumerBreaker) Until() time.Time { return b.until }

// Closed says for how long nothing should be taken, and whether what is taken then should be taken alone.
func (b *consumerBreaker) Closed(now time.Time) (wait time.Duration, alone bool) {
	if b.why == "" {
		return 0, false
	}
	return max(0, b.until.Sub(now)), true
}

// Try is told of what is taken.
func (b *consumerBreaker) Try(e *partition.Entry) {
	if b.why != "" {
		b.probe = e
	}
}

// Note counts a result, and reports whether that opens, opens again, or closes the breaker. Malformed
// messages and large ones decide nothing: else each publisher could stop the consumer.
func (b *consumerBreaker) Note(r exec.Result, now time.Time) (opened, closed bool) {
	good := r.What == decide.Handled || r.What == decide.Rejected
	bad := (r.What == decide.Failed || r.What == decide.Dead) && r.Class != failure.Malformed &&
		r.Class != failure.TooLarge && !r.Untried
	switch {
	case b.o.Off:
		return false, false
	case b.why != "":
		return b.tried(r.Entry, good, bad, now)
	case good:
		b.part(now).all++
	case bad && r.Print != "":
		t := b.part(now)
		t.all++
		t.kinds[r.Print]++
		return b.full(r, now), false
	}
	return false, false
}

// tried is what became of the one that was taken alone. What was in hand before says nothing.
func (b *consumerBreaker) tried(e *partition.Entry, good, bad bool, now time.Time) (opened, closed bool) {
	if e != b.probe {
		return false, false
	}
	b.probe = nil
	switch {
	case good:
		*b = consumerBreaker{o: b.o}
		return false, true
	case bad:
		b.rests = min(b.rests+1, mostRests)
		b.until = now.Add(b.o.Rest << b.rests)
		return true, false
	}
	return false, false
}

// full opens the breaker where too many failed as r did.
func (b *consumerBreaker) full(r exec.Result, now time.Time) bool {
	all, same := 0, 0
	for _, t := range b.parts {
		all, same = all+t.all, same+t.kinds[r.Print]
	}
	if same < b.o.Least || float64(same) <= b.o.Share*float64(all) {
		return false
	}
	reason, _, _ := strings.Cut(r.Err.Error(), "\n")
	b.why = fmt.Sprintf("%d of %d messages failed in one way within %v (fingerprint %s): %s",
		same, all, b.o.Window, r.Print, reason)
	b.until, b.parts = now.Add(b.o.Rest), nil
	return true
}

// part is what is being counted now; what is older than the window is forgotten.
func (b *consumerBreaker) part(now time.Time) *tally {
	if long := max(b.o.Window/breakerParts, 1); len(b.parts) == 0 || now.Sub(b.began) >= long {
		if now.Sub(b.began) >= b.o.Window {
			b.parts = nil
		}
		for range min(int(now.Sub(b.began)/long), breakerParts) - 1 { // nothing came
			b.parts = append(b.parts, tally{})
		}
		b.parts = append(b.parts, tally{kinds: map[string]int{}})
		if n := len(b.parts); n > breakerParts {
			b.parts = b.parts[n-breakerParts:]
		}
		b.began = now
	}
	return &b.parts[len(b.parts)-1]
}

// Breaker stops the consumer where many messages fail in one way, instead of letting a topic drain into the
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
