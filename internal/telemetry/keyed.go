package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// What became of work under a key. Labels of metrics: docs/metrics.md says what each means.
const (
	KeyDone       = "done"        // now, and its answer is stored
	KeyRefused    = "refused"     // now, for good, and that is stored
	KeyRepeated   = "repeated"    // the stored answer was given
	KeyCached     = "cached"      // the same, by a cache in front of the database
	KeyTooLarge   = "too_large"   // done now; its answer is too large to be kept
	KeyOvertaken  = "overtaken"   // done later than the lease lasts: another answer stands
	KeyInProgress = "in_progress" // another one has the key in hand
	KeyConflict   = "conflict"    // the key stands for another payload
	KeyTooOld     = "too_old"     // whether it was done is not known any more
	KeyInvalid    = "invalid"     // the request cannot be taken
	KeyUndone     = "undone"      // rolled back: the answer is not stored, a repeat runs again
	KeyFailed     = "failed"      // an error
	KeyOutage     = "outage"      // the database is away, or the handler asked for another time
)

// An Endpoint tells of the requests to one endpoint.
type Endpoint struct {
	answered metric.Int64Counter
	duration metric.Float64Histogram
	outcomes map[string]set
}

// NewEndpoint is the telemetry of an endpoint. Its counters begin at 0: the first failure is then a growth
// that an alert sees.
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
	return Metric{OnceCalls, "{call}", "Calls of work that is done once, by what became of them",
		[]string{labelScope, labelOutcome}}
}

func onceTime() Metric {
	return Metric{OnceTime, "s", "From such a call to its end", []string{labelScope, labelOutcome}}
}

// Once counts a call of work that is done once, for a package that has no options: by OpenTelemetry's global
// provider, which knows both instruments after the first time.
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
