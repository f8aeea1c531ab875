package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Outcomes of work under a key, as labels of metrics. docs/metrics.md describes them.
const (
	KeyDone       = "done"        // done now, and the answer is stored
	KeyRefused    = "refused"     // refused now, and the refusal is stored
	KeyRepeated   = "repeated"    // the stored answer was given
	KeyCached     = "cached"      // the same, from a cache in front of the database
	KeyTooLarge   = "too_large"   // done now; the answer is too large to store
	KeyOvertaken  = "overtaken"   // done after the lease expired: another answer is stored
	KeyInProgress = "in_progress" // another request is working on the key
	KeyConflict   = "conflict"    // the key was used with another payload
	KeyTooOld     = "too_old"     // the records of this time are deleted
	KeyInvalid    = "invalid"     // invalid request
	KeyUndone     = "undone"      // rolled back: the answer is not stored, a repeat runs again
	KeyFailed     = "failed"      // an error
	KeyOutage     = "outage"      // the database is unavailable, or the handler asked for a later retry
)

// Endpoint records the requests to one endpoint.
type Endpoint struct {
	answered metric.Int64Counter
	duration metric.Float64Histogram
	outcomes map[string]set
}

// NewEndpoint returns the telemetry of an endpoint. Its counters start at 0, so that alerts see the first
// failure as growth.
func NewEndpoint(p Providers, name string) *Endpoint {
	m := p.meter()
	e := &Endpoint{answered: m.counter(Requests), duration: m.histogram(RequestTime),
		outcomes: map[string]set{}}
	for _, outcome := range []string{KeyDone, KeyRefused, KeyRepeated, KeyCached, KeyTooLarge, KeyOvertaken,
		KeyInProgress, KeyConflict, KeyTooOld,
		KeyInvalid, KeyUndone, KeyFailed, KeyOutage} {
		e.outcomes[outcome] = newSet(attribute.String(labelEndpoint, name),
			attribute.String(labelOutcome, outcome))
		if ctx := context.Background(); e.answered.Enabled(ctx) {
			e.answered.Add(ctx, 0, e.outcomes[outcome].add...)
		}
	}
	return e
}

// Answered counts a request.
func (e *Endpoint) Answered(outcome string, took time.Duration) {
	ctx, labels := context.Background(), e.outcomes[outcome]
	if e.answered.Enabled(ctx) {
		e.answered.Add(ctx, 1, labels.add...)
	}
	if e.duration.Enabled(ctx) {
		e.duration.Record(ctx, took.Seconds(), labels.record...)
	}
}

func onceCalls() Metric {
	return Metric{OnceCalls, "{call}", "Calls of work that is done once, by outcome",
		[]string{labelScope, labelOutcome}}
}

func onceTime() Metric {
	return Metric{OnceTime, "s", "From such a call to its end", []string{labelScope, labelOutcome}}
}

// Once counts a call of work that is done once. It uses OpenTelemetry's global provider, because package
// once has no options. The provider caches both instruments.
func Once(scope, outcome string, took time.Duration) {
	ctx, m := context.Background(), Providers{}.meter()
	calls := m.counterOf(onceCalls())
	if !calls.Enabled(ctx) {
		return
	}
	labels := newSet(attribute.String(labelScope, scope), attribute.String(labelOutcome, outcome))
	calls.Add(ctx, 1, labels.add...)
	m.histogramOf(onceTime()).Record(ctx, took.Seconds(), labels.record...)
}
