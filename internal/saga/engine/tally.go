// This file counts and measures what an engine does, and logs what somebody has to look at.

package engine

import (
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/store"
)

// health is how an engine stands. Counts are since it was made.
type health struct {
	Live   bool   // it runs
	Ready  bool   // the database answers, and it claims
	Why    string // it is not ready
	InHand int    // sagas that it works on

	Done, Compensated int64 // sagas that ended here
	TakenOver         int64 // from processes that ended
	Refused           int64 // claims of sagas that this build cannot take on
	Alarms            int64 // that somebody has to look at
	Replies           map[plan.Outcome]int64
	Signals           map[plan.Outcome]int64
}

// A counters is of one engine. It is for any goroutine.
type counters struct {
	log     *slog.Logger
	metrics *telemetry.Saga

	mu     sync.Mutex
	health health
	faults faults
}

// newCounters is a tally of an engine that runs sagas of defs.
func newCounters(log *slog.Logger, metrics *telemetry.Saga, defs []*Definition) *counters {
	for _, d := range defs {
		var steps []string
		for _, s := range d.Plan.Graph.Steps {
			steps = append(steps, s.Name)
		}
		metrics.Knows(d.Name, steps, string(plan.Done), string(plan.Compensated))
	}
	return &counters{log: log, metrics: metrics,
		health: health{Live: true, Why: "not started yet", Replies: map[plan.Outcome]int64{},
			Signals: map[plan.Outcome]int64{}}}
}

// Health tells how the engine stands.
func (t *counters) Health(inHand int) health {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.health
	h.InHand, h.Replies, h.Signals = inHand, maps.Clone(h.Replies), maps.Clone(h.Signals)
	return h
}

func (t *counters) add(n *int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*n++
}

// Stands notes whether the engine runs, and why it does nothing; "": it claims.
func (t *counters) Stands(live bool, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.health.Live, t.health.Ready, t.health.Why = live, live && why == "", why
}

// TakenOver counts a saga of a process that ended.
func (t *counters) TakenOver() { t.add(&t.health.TakenOver) }

// Started counts a saga that was given to a transaction of the caller's.
func (t *counters) Started(saga string) { t.metrics.Started(saga) }

// Ended counts the end of a saga.
func (t *counters) Ended(s store.Saga, as plan.Status, now time.Time) {
	if as == plan.Done {
		t.add(&t.health.Done)
	} else {
		t.add(&t.health.Compensated)
	}
	t.metrics.Ended(s.Name, string(as), took(s.Started, now))
}

// Replied counts a reply by what it came to.
func (t *counters) Replied(out plan.Outcome) {
	t.mu.Lock()
	t.health.Replies[out]++
	t.mu.Unlock()
	t.metrics.Replied(string(out))
}

// Signalled counts a signal by what it came to.
func (t *counters) Signalled(out plan.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.health.Signals[out]++
}
