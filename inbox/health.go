package inbox

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/internal/telemetry"
)

// Health says how an inbox does. An outage of broker or database is "not ready", never "not live".
type Health struct {
	Live  bool   // false only when Run has ended
	Ready bool   // subscribed, and the broker answers
	Why   string // it is not ready

	// Stuck are the messages that failed and hold their keys, oldest first, at most 100.
	Stuck []Stuck

	// Counts of this process, since New.
	Received, Handled, Rejected, Duplicates, Skipped, Failures int64
	Conflicts, TooOld                                          int64    // put into quarantine
	Unacknowledged                                             int      // deliveries in memory now
	Paused                                                     []string // lanes that have too many of them
}

// A Stuck message failed and is tried again; the messages of its key wait behind it.
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
	return telemetry.Standing{Unacknowledged: in.health.Unacknowledged, Stuck: len(in.health.Stuck), Paused: len(in.health.Paused)}
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
	case conflict:
		h.Conflicts++
	case tooOld:
		h.TooOld++
	}
}

// report publishes what the goroutine of Run or Step knows.
func (in *Inbox[TTx]) report(outage error) {
	stuck, held, paused := in.stuck(), 0, []string(nil)
	for name, l := range in.lanes {
		held += len(l.entries)
		if l.paused {
			paused = append(paused, name)
		}
	}
	slices.Sort(paused)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.health.Stuck, in.health.Unacknowledged, in.health.Paused = stuck, held, paused
	in.health.Live, in.health.Ready, in.health.Why = true, outage == nil, ""
	if outage != nil {
		in.health.Why = outage.Error()
	}
}

func (in *Inbox[TTx]) stuck() []Stuck {
	var out []Stuck
	for e := range in.failing {
		if e.chain.lane.lost {
			delete(in.failing, e)
			continue
		}
		why, _, _ := strings.Cut(e.err.Error(), "\n")
		out = append(out, Stuck{Topic: e.Topic, Lane: e.Lane, Position: e.Position, ID: e.ID, Type: e.Type,
			Attempts: e.attempts, Since: e.since, Error: why})
	}
	slices.SortFunc(out, func(a, b Stuck) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Position, b.Position))
	})
	return out[:min(len(out), maxStuck)]
}
