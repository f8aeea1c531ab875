// This file stops a consumer if many messages fail for the same reason.

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
	breakerParts = 6 // parts of a window
	mostRests    = 4 // doublings of Breaker.Rest
)

// tally counts the messages of a part of the window.
type tally struct {
	all   int
	kinds map[string]int // failed messages by fingerprint
}

// consumerBreaker stops a consumer. It belongs to one goroutine.
type consumerBreaker struct {
	o     Breaker
	parts []tally   // the last one is the current part
	began time.Time // when the current part began

	why   string    // the breaker is open; "": it is closed
	until time.Time // no message is begun before
	rests int
	probe *partition.Entry // the message that is tried while the breaker is open
}

// newBreaker returns a closed breaker.
func newBreaker(o Breaker) *consumerBreaker { return &consumerBreaker{o: o} }

// Reset closes the breaker and clears its counts.
func (b *consumerBreaker) Reset() { *b = consumerBreaker{o: b.o} }

// Why returns why the breaker is open; "" if it is closed.
func (b *consumerBreaker) Why() string { return b.why }

// Until returns the time before which no message is begun.
func (b *consumerBreaker) Until() time.Time { return b.until }

// Closed returns how long no message may be begun, and reports whether the next message must run alone.
func (b *consumerBreaker) Closed(now time.Time) (wait time.Duration, alone bool) {
	if b.why == "" {
		return 0, false
	}
	return max(0, b.until.Sub(now)), true
}

// Try notes that e is begun: while the breaker is open, e is the probe.
func (b *consumerBreaker) Try(e *partition.Entry) {
	if b.why != "" {
		b.probe = e
	}
}

// Note counts a result, and reports whether that opens, reopens or closes the breaker. Malformed and too
// large messages do not count: otherwise each publisher could stop the consumer.
func (b *consumerBreaker) Note(r exec.Result, now time.Time) (opened, closed bool) {
	good := r.What == decide.Handled || r.What == decide.Rejected
	bad := (r.What == decide.Failed || r.What == decide.Dead) && r.Class != failure.Malformed &&
		r.Class != failure.TooLarge && !r.Unparked
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

// tried evaluates the result of the probe. Results of messages begun before the breaker opened do not count.
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

// full opens the breaker if too many messages failed with the fingerprint of r.
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

// part returns the current part, and drops parts that are older than the window.
func (b *consumerBreaker) part(now time.Time) *tally {
	if long := max(b.o.Window/breakerParts, 1); len(b.parts) == 0 || now.Sub(b.began) >= long {
		if now.Sub(b.began) >= b.o.Window {
			b.parts = nil
		}
		for range min(int(now.Sub(b.began)/long), breakerParts) - 1 { // parts without a message
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

// Breaker stops the consumer if many messages fail for the same reason, so that a topic does not drain into
// the dead letters. The consumer begins no message for a while, then one, and continues after a success.
// Failures have the same reason if their fingerprints are equal. Each message counts once, on its first
// failure. Outages do not count. Received messages stay unacknowledged meanwhile.
//
// Malformed messages and too large records do not count. They become dead letters one by one, so no producer
// can stop a consumer.
type Breaker struct {
	// Off disables the breaker.
	Off bool
	// Share and Least are which part of the messages in a Window, and how many of them, must fail for the
	// same reason. Defaults 0.5 and 50 in a minute.
	Share  float64
	Least  int
	Window time.Duration
	// Rest is the pause before the consumer tries one message. It doubles, up to 16 times as long, while that
	// message fails. Default 30 s.
	Rest time.Duration
}

func (b Breaker) orDefaults() Breaker {
	b.Share = cmp.Or(b.Share, 0.5)
	b.Least = max(1, cmp.Or(b.Least, 50))
	b.Window = cmp.Or(b.Window, time.Minute)
	b.Rest = cmp.Or(b.Rest, 30*time.Second)
	return b
}
