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
	mostRests    = 4 // the most doublings of Breaker.Rest
)

// tally counts the messages of a part of the window.
type tally struct {
	all   int
	kinds map[string]int // failed messages by fingerprint
}

// consumerBreaker decides whether a consumer may handle messages. Only one goroutine uses it.
type consumerBreaker struct {
	o     Breaker
	parts []tally   // the last one is the current part
	began time.Time // when the current part began

	why   string           // why the breaker is open; "" if it is closed
	until time.Time        // no message starts before this time
	rests int              // doublings of Breaker.Rest
	probe *partition.Entry // the message that is tried while the breaker is open
}

// newBreaker returns a closed breaker.
func newBreaker(o Breaker) *consumerBreaker { return &consumerBreaker{o: o} }

// Reset closes the breaker and clears its counts.
func (b *consumerBreaker) Reset() { *b = consumerBreaker{o: b.o} }

// Why returns the reason for which the breaker is open. It returns "" if the breaker is closed.
func (b *consumerBreaker) Why() string { return b.why }

// Until returns the time before which no message starts.
func (b *consumerBreaker) Until() time.Time { return b.until }

// Restrict returns how long no message may start, and reports whether the next message must run alone.
func (b *consumerBreaker) Restrict(now time.Time) (wait time.Duration, alone bool) {
	if b.why == "" {
		return 0, false
	}
	return max(0, b.until.Sub(now)), true
}

// Try makes e the probe if the breaker is open. The caller starts e.
func (b *consumerBreaker) Try(e *partition.Entry) {
	if b.why != "" {
		b.probe = e
	}
}

// Note counts a result. It returns opened true if this opens the breaker, or if the probe failed. It returns
// closed true if this closes the breaker. Malformed and too large messages do not count: otherwise each
// publisher could stop the consumer.
func (b *consumerBreaker) Note(r exec.Result, now time.Time) (opened, closed bool) {
	good := r.What == decide.Handled || r.What == decide.Rejected
	bad := (r.What == decide.Failed || r.What == decide.Dead) && r.Class != failure.Malformed &&
		r.Class != failure.TooLarge && !r.Unparked
	switch {
	case b.o.Off:
		return false, false
	case b.why != "":
		return b.endProbe(r.Entry, good, bad, now)
	case good:
		b.currentPart(now).all++
	case bad && r.Print != "":
		t := b.currentPart(now)
		t.all++
		t.kinds[r.Print]++
		return b.openIfFull(r, now), false
	}
	return false, false
}

// endProbe evaluates the result of the probe. It ignores results of messages that began before the breaker
// opened.
func (b *consumerBreaker) endProbe(e *partition.Entry, good, bad bool, now time.Time) (opened, closed bool) {
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

// openIfFull opens the breaker if too many messages in the window failed with the fingerprint of r. It
// reports whether the breaker opened.
func (b *consumerBreaker) openIfFull(r exec.Result, now time.Time) bool {
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

// currentPart returns the current part of the window, and drops parts that are older than the window.
func (b *consumerBreaker) currentPart(now time.Time) *tally {
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

// Breaker stops the consumer if many messages fail for the same reason, so that the messages of a topic do
// not all become dead letters. The consumer starts no message for a while, and then tries one. After a
// success it continues. Meanwhile received messages stay unacknowledged.
//
// Failures have the same reason if their fingerprints are equal. Each message counts once, on its first
// failure. Outages do not count. Malformed messages and too large records do not count either: they become
// dead letters one by one, so no producer can stop a consumer.
type Breaker struct {
	// Off disables the breaker.
	Off bool
	// Share and Least are the part and the number of the messages in a Window that must fail for the same
	// reason. Defaults 0.5 and 50 in a minute.
	Share  float64
	Least  int
	Window time.Duration
	// Rest is the pause before the consumer tries one message. The pause doubles each time that message
	// fails, up to 16 times Rest. Default 30 s.
	Rest time.Duration
}

func (b Breaker) orDefaults() Breaker {
	b.Share = cmp.Or(b.Share, 0.5)
	b.Least = max(1, cmp.Or(b.Least, 50))
	b.Window = cmp.Or(b.Window, time.Minute)
	b.Rest = cmp.Or(b.Rest, 30*time.Second)
	return b
}
