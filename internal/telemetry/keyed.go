package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Outcomes of work under a key, as labels of metrics. docs/metrics.md describes them.
const (
	KeyDone       = "done"        // the work was done, and its answer is stored
	KeyRefused    = "refused"     // the work was refused, and the refusal is stored
	KeyRepeated   = "repeated"    // the stored answer was returned
	KeyCached     = "cached"      // the stored answer was returned from a cache in front of the database
	KeyTooLarge   = "too_large"   // the work was done, but its answer is too large to store
	KeyOvertaken  = "overtaken"   // the work was done after its lease expired, and another answer is stored
	KeyInProgress = "in_progress" // another request is doing the work for the key
	KeyConflict   = "conflict"    // the key was used with another payload
	KeyTooOld     = "too_old"     // the key is older than the retention of marks
	KeyInvalid    = "invalid"     // the request is invalid
	KeyUndone     = "undone"      // the work was rolled back without a stored answer, and a repeat does it again
	KeyFailed     = "failed"      // the work returned an error
	KeyOutage     = "outage"      // the database is unavailable, or the handler requested a later retry
)

// Endpoint records the requests to one endpoint.
type Endpoint struct {
	answered metric.Int64Counter
	duration metric.Float64Histogram
	outcomes map[string]set
}

// NewEndpoint returns the telemetry of an endpoint. Its counters start at 0, so that a rate includes the
// first failure.
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

// Answered counts a request with its outcome and its duration.
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
	return Metric{OnceTime, "s", "Duration of a call of work that is done once",
		[]string{labelScope, labelOutcome}}
}

// Once counts a call of package once with its outcome and its duration. It uses OpenTelemetry's global
// provider, because package once has no options. The provider caches the instruments.
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
