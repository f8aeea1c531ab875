package inbox

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/store"
)

// Health says how an inbox does. An outage of broker or database is "not ready", never "not live".
type Health struct {
	Live  bool   // false only when Run has ended
	Ready bool   // subscribed, and the broker answers
	Why   string // it is not ready
	// Stopped says why the breaker lets nothing be taken, or one message at a time; "": it is not open. Then it is not ready.
	Stopped string

	// Stuck are the parked messages that failed and hold their keys, whichever instance parked them, at most 100, and Parked
	// and Dead how many the store keeps, dead letters too: as of a moment ago.
	Stuck        []Stuck
	Parked, Dead int64

	// Counts of this process, since New.
	Received, Handled, Rejected, Duplicates, Skipped, Failures int64    // Failures: failed attempts
	Barred                                                     int64    // their step was to be undone before they came
	Conflicts, TooOld                                          int64    // put into quarantine
	Left                                                       int64    // parked for a build that handles their type
	Parkings                                                   int64    // messages that were parked: behind others, for later, or because they failed
	UnknownSettled                                             int64    // calls to the outside of which it was not known for a while what became of them
	Unacknowledged                                             int      // deliveries in memory now
	Paused                                                     []string // lanes that have too many of them
}

// A Stuck message failed, is parked and tried again; the messages of its key wait behind it.
type Stuck struct {
	Topic, Lane string
	Position    int64
	ID, Type    string
	Attempts    int
	Since       time.Time
	Error       string
}

func (s Stuck) String() string {
	return fmt.Sprintf("%s at %s/%d (%s %s), %d attempts since %s: %s", s.Topic, s.Lane, s.Position, s.Type, s.ID,
		s.Attempts, s.Since.Format(time.RFC3339), s.Error)
}

const maxStuck = 100

// Health may be called at any time from any goroutine.
func (in *Inbox[TTx]) Health() Health {
	in.mu.Lock()
	defer in.mu.Unlock()
	h := in.health
	h.Stuck, h.Paused = slices.Clone(h.Stuck), slices.Clone(h.Paused)
	return h
}

func (in *Inbox[TTx]) standing() telemetry.Standing {
	in.mu.Lock()
	defer in.mu.Unlock()
	s := telemetry.Standing{Unacknowledged: in.health.Unacknowledged, Stuck: len(in.health.Stuck), Paused: len(in.health.Paused)}
	if in.health.Stopped != "" {
		s.Stopped = 1
	}
	return s
}

func (in *Inbox[TTx]) count(f func(*Health)) {
	in.mu.Lock()
	f(&in.health)
	in.mu.Unlock()
}

func (h *Health) add(what ending) {
	switch what {
	case handled:
		h.Handled++
	case duplicate:
		h.Duplicates++
	case rejected:
		h.Rejected++
	case barred:
		h.Barred++
	case conflict:
		h.Conflicts++
	case tooOld:
		h.TooOld++
	case failed, dead:
		h.Failures++
	}
}

// report publishes what the goroutine of Run or Step knows.
func (in *Inbox[TTx]) report(outage error) {
	held, paused := 0, []string(nil)
	for name, l := range in.lanes {
		held += len(l.entries)
		if l.paused {
			paused = append(paused, name)
		}
	}
	slices.Sort(paused)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.health.Stuck = bySince(slices.Clone(in.stuck))
	in.health.Unacknowledged, in.health.Paused = held, paused
	in.health.Parked, in.health.Dead = in.kept.Parked, in.kept.Dead
	in.health.Live, in.health.Ready, in.health.Why = true, outage == nil, ""
	if in.health.Stopped = in.breaker.why; in.breaker.why != "" {
		in.health.Ready, in.health.Why = false, "stopped by the breaker: "+in.breaker.why
	}
	if outage != nil {
		in.health.Why = outage.Error()
	}
}

// stuckOf names parked messages that failed.
func stuckOf(ps []store.Parked) []Stuck {
	var out []Stuck
	for _, p := range ps {
		reason, _, _ := strings.Cut(p.Last.Why, "\n")
		out = append(out, Stuck{Topic: p.Message.Topic, Lane: p.Lane, Position: p.Position, ID: p.ID, Type: p.Message.Type,
			Attempts: p.Attempts, Since: p.First.At, Error: reason})
	}
	return out
}

func bySince(all []Stuck) []Stuck {
	slices.SortFunc(all, func(a, b Stuck) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Position, b.Position))
	})
	return all
}

// Quiet tells whether no delivery is in hand: each that came is finished, or kept by the store. It is for those who step an
// inbox: a Step that had nothing to do may have one that waits, for a rival or for its database.
func (in *Inbox[TTx]) Quiet(context.Context) (bool, error) {
	return in.Health().Unacknowledged == 0, nil
}
