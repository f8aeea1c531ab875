// Package telemetry has the OpenTelemetry metrics and spans of Skald's components, and the trace context in
// messages. If the service sets no provider, it does almost nothing.
package telemetry

import (
	"context"
	"slices"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
)

const scope = "github.com/skald-go/skald"

// Names of the metrics, which alert rules and the dashboard use. docs/metrics.md describes them.
const (
	Written          = "skald.outbox.message.written"
	Published        = "skald.outbox.message.published"
	PublishDelay     = "skald.outbox.publish.delay"
	RelayShards      = "skald.outbox.relay.shards"
	Pending          = "skald.outbox.message.pending"
	OldestAge        = "skald.outbox.message.oldest_age"
	Deferred         = "skald.outbox.message.deferred"
	RetainedAge      = "skald.outbox.message.retained_age"
	FreeShards       = "skald.outbox.shard.free"
	Received         = "skald.inbox.message.received"
	Unacknowledged   = "skald.inbox.message.unacknowledged"
	ProcessTime      = "skald.inbox.process.duration"
	ProcessDelay     = "skald.inbox.process.delay"
	StuckKeys        = "skald.inbox.key.stuck"
	PausedPartitions = "skald.inbox.partition.paused"
	Parked           = "skald.inbox.message.parked"
	ParkedSize       = "skald.inbox.message.parked_size"
	ParkedAge        = "skald.inbox.message.parked_age"
	DeadLetters      = "skald.inbox.message.dead"
	DeadSize         = "skald.inbox.message.dead_size"
	Quarantined      = "skald.inbox.message.quarantined"
	QuarantinedSize  = "skald.inbox.message.quarantined_size"
	QuarantinedAge   = "skald.inbox.message.quarantined_age"
	Calls            = "skald.inbox.call.unsettled"
	CallAge          = "skald.inbox.call.unsettled_age"
	Stopped          = "skald.inbox.stopped"
	InboxReady       = "skald.inbox.ready"
	Heard            = "skald.inbox.heard_age"
	Progress         = "skald.inbox.progress_age"
	Lag              = "skald.inbox.message.lag"
	RelayReady       = "skald.outbox.relay.ready"
	RelayDeaf        = "skald.outbox.relay.deaf"
	RelayProgress    = "skald.outbox.relay.progress_age"
	RelayBrokerAway  = "skald.outbox.relay.broker_away_age"
	StoreFailed      = "skald.inbox.store.failed"
	Missed           = "skald.inbox.missed"
	IntakeTime       = "skald.inbox.intake.duration"
	HandlerTime      = "skald.inbox.handler.duration"
	CacheLookups     = "skald.cache.lookup"
	Requests         = "skald.http.request.answered"
	RequestTime      = "skald.http.request.duration"
	OnceCalls        = "skald.once.call.ended"
	OnceTime         = "skald.once.call.duration"
	ReservedHeld     = "skald.reservation.held"
	ReservedExpired  = "skald.reservation.expired"
	SagasLive        = "skald.saga.live"
	SagasStuck       = "skald.saga.stuck"
	SagasPaused      = "skald.saga.paused"
	SagasFailing     = "skald.saga.failing"
	SagasOverdue     = "skald.saga.overdue"
	SagaFailingAge   = "skald.saga.failing_age"
	SagaAge          = "skald.saga.oldest_age"
	SagasStarted     = "skald.saga.started"
	SagasEnded       = "skald.saga.ended"
	SagaTime         = "skald.saga.duration"
	SagaSteps        = "skald.saga.step.ended"
	SagaStepTime     = "skald.saga.step.duration"
	SagaStepFailed   = "skald.saga.step.failed"
	SagaReplies      = "skald.saga.reply"
	SagasUncounted   = "skald.saga.uncounted"
	TrackedLive      = "skald.tracked.live"
	TrackedOverdue   = "skald.tracked.overdue"
	TrackedDrifted   = "skald.tracked.drifted"
)

// Metric is one instrument. Units are UCUM, as OpenTelemetry requires.
type Metric struct {
	Name, Unit, About string
	Labels            []string
}

// Metrics returns all metrics.
func Metrics() []Metric {
	return slices.Concat(relayMetrics(), inboxMetrics(), sagaMetrics())
}

// relayMetrics returns the metrics of outbox and relay.
func relayMetrics() []Metric {
	backlog := []string{labelSource}
	return []Metric{
		{Written, "{message}", "Messages written in transactions, which may still be rolled back",
			[]string{labelTopic}},
		{Published, "{message}", "Messages sent to the broker, by the answer of the broker",
			[]string{labelTopic, labelOutcome}},
		{PublishDelay, "s", "Time from the write of a message to the acknowledgement of the broker",
			[]string{labelTopic}},
		{RelayShards, "{shard}", "Shards that this relay owns", []string{labelOwner}},
		{Pending, "{message}",
			"Messages in the outbox that no relay has published yet; an estimate if there are many",
			backlog},
		{OldestAge, "s", "Age of the oldest unpublished message; 0 without one", backlog},
		{Deferred, "{message}", "Messages that the broker refused, and later messages of their keys", backlog},
		{RetainedAge, "s", "Age of the oldest row of the outbox", backlog},
		{FreeShards, "{shard}", "Shards that no running relay owns", backlog},
	}
}

// inboxMetrics returns the metrics of inboxes, endpoints and keys.
func inboxMetrics() []Metric {
	kept := []string{labelSource, labelConsumer}
	return []Metric{
		{Received, "{message}", "Deliveries, by outcome",
			[]string{labelConsumer, labelTopic, labelOutcome}},
		{Unacknowledged, "{message}", "Deliveries in memory that are not acknowledged yet",
			[]string{labelConsumer}},
		{ProcessTime, "s", "Time from the start of an attempt to its commit or its failure",
			[]string{labelConsumer, labelTopic, labelOutcome}},
		{ProcessDelay, "s", "Time from the write of a message to the commit of its effect",
			[]string{labelConsumer, labelTopic}},
		{StuckKeys, "{key}", "Keys whose first message fails repeatedly", []string{labelConsumer}},
		{PausedPartitions, "{partition}", "Partitions that are paused because they have too many unacknowledged messages",
			[]string{labelConsumer}},
		{Parked, "{message}", "Parked messages: they failed and are retried, or wait behind such a message",
			kept},
		{ParkedSize, "By", "Size of the keys and payloads of parked messages", kept},
		{ParkedAge, "s", "Time since the oldest parked message was parked; 0 without one", kept},
		{DeadLetters, "{message}", "Dead letters", kept},
		{DeadSize, "By", "Size of the keys and payloads of dead letters", kept},
		{Quarantined, "{message}", "Messages in quarantine that no operator has admitted",
			[]string{labelSource, labelConsumer, labelOutcome}},
		{QuarantinedSize, "By", "Size of the payloads of messages in quarantine", kept},
		{QuarantinedAge, "s", "Time since the oldest message in quarantine arrived; 0 without one", kept},
		{Calls, "{call}", "Calls to other systems with an unknown outcome", kept},
		{CallAge, "s", "Time since the oldest of these calls was due; 0 without one", kept},
		{InboxReady, "{process}",
			"1 while this process can consume: it is subscribed and not stopped, and the broker answers",
			[]string{labelConsumer}},
		{RelayReady, "{process}", "1 while this relay can publish: database and broker answer",
			[]string{labelOwner}},
		{RelayDeaf, "{process}",
			"1 while this relay polls because it cannot read commits from the WAL, " +
				"or because it cannot follow the slot of another reader", []string{labelOwner}},
		{Heard, "s", "Time since the last heartbeat of a process of the consumer, as stored in the database",
			kept},
		{Progress, "s", "Time since a process of the consumer last acknowledged a message, as stored in the database",
			kept},
		{RelayProgress, "s", "Time since a relay with shards last took a shard or stored a position",
			[]string{labelSource, labelOwner}},
		{RelayBrokerAway, "s", "Time since the broker of a relay last answered; 0 while it answers",
			[]string{labelSource, labelOwner}},
		{Lag, "{message}", "Messages at the broker that the consumer has not acknowledged",
			[]string{labelSource, labelConsumer, labelTopic}},
		{Stopped, "{process}",
			"1 while this process handles nothing, because too many messages failed with one fingerprint",
			[]string{labelConsumer}},
		{StoreFailed, "{failure}",
			"Failed background calls to the store, by operation",
			[]string{labelConsumer, labelOperation}},
		{Missed, "{message}", "Messages that the broker removed before this consumer read them",
			[]string{labelConsumer}},
		{IntakeTime, "s",
			"Time to begin an attempt: one round trip, and the wait for processes that handle the message or lock its entities", []string{labelConsumer, labelTopic}},
		{HandlerTime, "s", "Duration of a handler in its transaction, while its entities are locked",
			[]string{labelConsumer, labelTopic}},
		{CacheLookups, "{key}",
			"Lookups of keys in a cache in front of the database: hit, miss, or bypassed because the cache is unavailable",
			[]string{labelOutcome}},
		{Requests, "{request}", "Requests to an idempotent endpoint, by outcome",
			[]string{labelEndpoint, labelOutcome}},
		{RequestTime, "s", "Time from a request until its answer is ready",
			[]string{labelEndpoint, labelOutcome}},
		onceCalls(), onceTime(),
		{ReservedHeld, "{key}", "Keys that are reserved by work outside of a transaction; counted up to 10,000",
			kept},
		{ReservedExpired, "{key}",
			"Reserved keys with an expired lease and no answer: the outcome of the work is unknown", kept},
	}
}

func sagaMetrics() []Metric {
	backlog, saga := []string{labelSource}, []string{labelSource, labelSaga}
	tracked := []string{labelSource, labelFlow}
	return []Metric{
		{SagasLive, "{saga}", "Orchestrated sagas that have not ended, by status; counted up to 10,000",
			[]string{labelSource, labelSaga, labelStatus}},
		{SagasStuck, "{saga}", "Sagas that wait for an operator", saga},
		{SagasPaused, "{saga}", "Sagas that an operator paused", saga},
		{SagasFailing, "{saga}", "Sagas with a failed step that is retried", saga},
		{SagaFailingAge, "s",
			"Time for which the longest failing saga has failed; 0 without one", saga},
		{SagasOverdue, "{saga}",
			"Sagas that no engine claims: due for more than a minute, or left to another build for 15 minutes", saga},
		{SagaAge, "s", "Age of the oldest saga that has not ended; 0 without one", saga},
		{SagasStarted, "{saga}", "Sagas started in transactions, which may still be rolled back",
			[]string{labelSaga}},
		{SagasEnded, "{saga}", "Sagas that this engine ended, by status", []string{labelSaga, labelOutcome}},
		{SagaTime, "s", "Time from the start of a saga to its end", []string{labelSaga, labelOutcome}},
		{SagaSteps, "{step}", "Ended steps, by outcome", []string{labelSaga, labelStep, labelOutcome}},
		{SagaStepTime, "s",
			"Time until the outcome of a step, since it could begin or since its request was sent",
			[]string{labelSaga, labelStep, labelOutcome}},
		{SagaStepFailed, "{attempt}", "Failed attempts of steps and undos that are retried",
			[]string{labelSaga, labelStep}},
		{SagaReplies, "{message}", "Replies of participants, by outcome", []string{labelOutcome}},
		{SagasUncounted, "{database}",
			"1 while the sagas of a database cannot be counted, so their metrics are missing", backlog},
		{TrackedLive, "{saga}", "Choreographed sagas that have not ended, by status; counted up to 10,000",
			[]string{labelSource, labelFlow, labelStatus}},
		{TrackedOverdue, "{saga}",
			"Choreographed sagas with an event that is later than the flow allows", tracked},
		{TrackedDrifted, "{saga}",
			"Choreographed sagas that received an event within the last day that the flow does not allow",
			tracked},
	}
}

const (
	labelTopic    = "destination"
	labelOutcome  = "outcome"
	labelConsumer = "consumer"
	labelSource   = "source"
	labelOwner    = "owner"

	labelOperation = "operation"
	labelEndpoint  = "endpoint"
	labelScope     = "scope"
	labelSaga      = "saga"
	labelStep      = "step"
	labelStatus    = "status"
	labelFlow      = "flow"
)

// Providers has the OpenTelemetry providers of a component. A nil provider means the global provider, which
// does nothing until the process sets it.
type Providers struct {
	Meter  metric.MeterProvider
	Tracer trace.TracerProvider
}

func (p Providers) meter() meter {
	if p.Meter == nil {
		p.Meter = otel.GetMeterProvider()
	}
	return meter{p.Meter.Meter(scope)}
}

func (p Providers) tracer() trace.Tracer {
	if p.Tracer == nil {
		p.Tracer = otel.GetTracerProvider()
	}
	return p.Tracer.Tracer(scope)
}

// meter creates instruments. If the provider refuses an instrument, only that metric is missing, and the
// component still works.
type meter struct{ metric.Meter }

func about(name string) Metric {
	for _, m := range Metrics() {
		if m.Name == name {
			return m
		}
	}
	return Metric{Name: name}
}

func (m meter) counter(name string) metric.Int64Counter { return m.counterOf(about(name)) }

func (m meter) counterOf(d Metric) metric.Int64Counter {
	c, err := m.Int64Counter(d.Name, metric.WithUnit(d.Unit), metric.WithDescription(d.About))
	if err != nil {
		otel.Handle(err)
		return noop.Int64Counter{}
	}
	return c
}

func (m meter) histogram(name string) metric.Float64Histogram { return m.histogramOf(about(name)) }

func (m meter) histogramOf(d Metric) metric.Float64Histogram {
	h, err := m.Float64Histogram(d.Name, metric.WithUnit(d.Unit), metric.WithDescription(d.About),
		metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10,
			60, 300, 3600))
	if err != nil {
		otel.Handle(err)
		return noop.Float64Histogram{}
	}
	return h
}

// recordGauge records the value of a gauge.
type recordGauge func(name string, v float64, labels metric.ObserveOption)

// watch calls the function read at every collection of metrics, until the caller calls stop.
func (m meter) watch(read func(context.Context, recordGauge), names ...string) (stop func()) {
	gauges := make(map[string]metric.Float64ObservableGauge, len(names))
	all := make([]metric.Observable, 0, len(names))
	for _, name := range names {
		d := about(name)
		g, err := m.Float64ObservableGauge(name, metric.WithUnit(d.Unit), metric.WithDescription(d.About))
		if err != nil {
			otel.Handle(err)
			continue
		}
		gauges[name], all = g, append(all, g)
	}
	r, err := m.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		read(ctx, func(name string, v float64, labels metric.ObserveOption) {
			if g := gauges[name]; g != nil {
				o.ObserveFloat64(g, v, labels)
			}
		})
		return nil
	}, all...)
	if err != nil {
		otel.Handle(err)
		return func() {}
	}
	return func() {
		if err := r.Unregister(); err != nil {
			otel.Handle(err)
		}
	}
}

// set is a reusable set of labels.
type set struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

func newSet(labels ...attribute.KeyValue) set {
	o := metric.WithAttributeSet(attribute.NewSet(labels...))
	return set{[]metric.AddOption{o}, []metric.RecordOption{o}}
}

// sets has the label sets of one component, by topic and outcome.
type sets struct {
	fixed []attribute.KeyValue
	mu    sync.RWMutex
	by    map[[2]string]set
}

// news returns true if no labels were requested for topic yet.
func (s *sets) news(topic string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, known := s.by[[2]string{topic, Aside}]
	return !known
}

func (s *sets) of(topic, outcome string) set {
	k := [2]string{topic, outcome}
	s.mu.RLock()
	got, ok := s.by[k]
	s.mu.RUnlock()
	if ok {
		return got
	}
	labels := append([]attribute.KeyValue{attribute.String(labelTopic, topic)}, s.fixed...)
	if outcome != "" {
		labels = append(labels, attribute.String(labelOutcome, outcome))
	}
	got = newSet(labels...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = map[[2]string]set{}
	}
	s.by[k] = got
	return got
}
