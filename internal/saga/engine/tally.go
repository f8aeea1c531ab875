// This file counts and measures the work of an engine, and logs events for operators.

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

// health is the state of an engine. The counts begin when the engine is created.
type health struct {
	Live       bool   // the engine runs
	Ready      bool   // the engine claims sagas: the database answers
	Why        string // reason for which the engine is not ready
	InProgress int    // sagas in progress

	Done, Compensated int64 // sagas that ended in this process
	TakenOver         int64 // sagas taken over from processes that ended
	Refused           int64 // claims of sagas that this build cannot run
	Alarms            int64 // events that need an operator
	Replies           map[plan.Outcome]int64
	Signals           map[plan.Outcome]int64
}

// counters has the counts of one engine. It is safe for concurrent use.
type counters struct {
	log     *slog.Logger
	metrics *telemetry.Saga

	mu     sync.Mutex
	health health
	faults faults
}

// newCounters returns the counters of an engine with the definitions defs.
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

// Health returns the state of the engine.
func (t *counters) Health(inHand int) health {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.health
	h.InProgress, h.Replies, h.Signals = inHand, maps.Clone(h.Replies), maps.Clone(h.Signals)
	return h
}

func (t *counters) add(n *int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*n++
}

// SetReady records whether the engine runs. The argument why is the reason why it claims no sagas, or "".
func (t *counters) SetReady(live bool, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.health.Live, t.health.Ready, t.health.Why = live, live && why == "", why
}

// TakenOver counts a saga that was taken over from a process that ended.
func (t *counters) TakenOver() { t.add(&t.health.TakenOver) }

// Started counts a saga that was inserted in a caller's transaction.
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

// Replied counts a reply by its outcome.
func (t *counters) Replied(out plan.Outcome) {
	t.mu.Lock()
	t.health.Replies[out]++
	t.mu.Unlock()
	t.metrics.Replied(string(out))
}

// Signalled counts a signal by its outcome.
func (t *counters) Signalled(out plan.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.health.Signals[out]++
}
