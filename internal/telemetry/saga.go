package telemetry

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Saga records the sagas that one engine starts, runs and ends.
type Saga struct {
	started, ended, stepped, failed, replies metric.Int64Counter
	lasted, stepTook                         metric.Float64Histogram

	mu sync.RWMutex
	by map[[3]string]set // by saga, step and outcome
}

// NewSaga returns the telemetry of an engine.
func NewSaga(p Providers) *Saga {
	m := p.meter()
	return &Saga{started: m.counter(SagasStarted), ended: m.counter(SagasEnded),
		lasted: m.histogram(SagaTime), stepped: m.counter(SagaSteps),
		stepTook: m.histogram(SagaStepTime), failed: m.counter(SagaStepFailed),
		replies: m.counter(SagaReplies), by: map[[3]string]set{}}
}

// Knows starts the counters of a definition at 0, so that a rate includes the first failure.
func (s *Saga) Knows(saga string, steps []string, ends ...string) {
	ctx := context.Background()
	if !s.ended.Enabled(ctx) {
		return
	}
	s.started.Add(ctx, 0, s.labelsOf(saga, "", "").add...)
	s.replies.Add(ctx, 0, s.labelsOf("", "", "taken").add...)
	for _, status := range ends {
		s.ended.Add(ctx, 0, s.labelsOf(saga, "", status).add...)
	}
	for _, step := range steps {
		s.failed.Add(ctx, 0, s.labelsOf(saga, step, "").add...)
	}
}

// Started counts a saga that was started in a transaction of the caller.
func (s *Saga) Started(saga string) {
	if ctx := context.Background(); s.started.Enabled(ctx) {
		s.started.Add(ctx, 1, s.labelsOf(saga, "", "").add...)
	}
}

// Ended counts a saga that ended, and records its duration.
func (s *Saga) Ended(saga, status string, took time.Duration) {
	ctx := context.Background()
	if s.ended.Enabled(ctx) {
		s.ended.Add(ctx, 1, s.labelsOf(saga, "", status).add...)
	}
	if s.lasted.Enabled(ctx) {
		s.lasted.Record(ctx, max(0, took.Seconds()), s.labelsOf(saga, "", status).record...)
	}
}

// Stepped counts a step that ended. took is the time since the step could begin, or since its request was
// sent.
func (s *Saga) Stepped(saga, step, outcome string, took time.Duration) {
	ctx := context.Background()
	if s.stepped.Enabled(ctx) {
		s.stepped.Add(ctx, 1, s.labelsOf(saga, step, outcome).add...)
	}
	if s.stepTook.Enabled(ctx) {
		s.stepTook.Record(ctx, max(0, took.Seconds()), s.labelsOf(saga, step, outcome).record...)
	}
}

// Failed counts failed attempts of a step or of its undo.
func (s *Saga) Failed(saga, step string, attempts int) {
	if ctx := context.Background(); attempts > 0 && s.failed.Enabled(ctx) {
		s.failed.Add(ctx, int64(attempts), s.labelsOf(saga, step, "").add...)
	}
}

// Replied counts a participant's reply by its outcome.
func (s *Saga) Replied(outcome string) {
	if ctx := context.Background(); s.replies.Enabled(ctx) {
		s.replies.Add(ctx, 1, s.labelsOf("", "", outcome).add...)
	}
}

// labelsOf returns the labels for a saga, a step and an outcome. It caches them, because there are only a
// few.
func (s *Saga) labelsOf(saga, step, outcome string) set {
	k := [3]string{saga, step, outcome}
	s.mu.RLock()
	got, ok := s.by[k]
	s.mu.RUnlock()
	if ok {
		return got
	}
	var labels []attribute.KeyValue
	for i, name := range []string{labelSaga, labelStep, labelOutcome} {
		if k[i] != "" {
			labels = append(labels, attribute.String(name, k[i]))
		}
	}
	got = newSet(labels...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by[k] = got
	return got
}
