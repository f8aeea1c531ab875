// Package telemetry defines the OpenTelemetry metrics of Skald's components, and the trace context in
// messages. Without a provider it costs only a check.
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
		{Written, "{message}", "Messages given to transactions, which may still be rolled back",
			[]string{labelTopic}},
		{Published, "{message}", "Messages handed to the broker, by what it answered",
			[]string{labelTopic, labelOutcome}},
		{PublishDelay, "s", "From the writing of a message to the broker's acknowledgement",
			[]string{labelTopic}},
		{RelayShards, "{shard}", "Shards that this relay holds", []string{labelOwner}},
		{Pending, "{message}",
			"Messages in the outbox that no relay has published yet; an estimate when they are many",
			backlog},
		{OldestAge, "s", "Since the oldest of them was written; 0: there is none", backlog},
		{Deferred, "{message}", "Messages that the broker refused, and later ones of their keys", backlog},
		{RetainedAge, "s", "Since the oldest message that is kept was written", backlog},
		{FreeShards, "{shard}", "Shards that no living relay holds", backlog},
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
		{ProcessTime, "s", "From the intake of a message to its commit, or to its failure",
			[]string{labelConsumer, labelTopic, labelOutcome}},
		{ProcessDelay, "s", "From the writing of a message to the commit of its effect",
			[]string{labelConsumer, labelTopic}},
		{StuckKeys, "{key}", "Keys whose first message fails repeatedly", []string{labelConsumer}},
		{PausedPartitions, "{partition}", "Partitions that are paused because they have too many unacknowledged messages",
			[]string{labelConsumer}},
		{Parked, "{message}", "Messages that failed and are retried, and later ones of their keys",
			kept},
		{ParkedSize, "By", "Keys and payloads of them", kept},
		{ParkedAge, "s", "Since the oldest of them was parked; 0: there is none", kept},
		{DeadLetters, "{message}", "Dead letters", kept},
		{DeadSize, "By", "Keys and payloads of dead letters", kept},
		{Quarantined, "{message}", "Messages in quarantine that nobody has admitted",
			[]string{labelSource, labelConsumer, labelOutcome}},
		{QuarantinedSize, "By", "Payloads of these messages", kept},
		{QuarantinedAge, "s", "Since the oldest of them arrived; 0: there is none", kept},
		{Calls, "{call}", "Calls to other systems with an unknown outcome", kept},
		{CallAge, "s", "Since the oldest of them was due; 0: there is none", kept},
		{InboxReady, "{process}",
			"1 while this process can consume: subscribed, the broker answers, not stopped",
			[]string{labelConsumer}},
		{RelayReady, "{process}", "1 while this relay can work: database and broker answer",
			[]string{labelOwner}},
		{RelayDeaf, "{process}",
			"1 while this relay polls because it cannot read commits from the WAL; " +
				"or while positions do not follow another reader's slot", []string{labelOwner}},
		{Heard, "s", "Since the last heartbeat of a process of the consumer, as recorded in the database",
			kept},
		{Progress, "s", "Since a process of the consumer last acknowledged a message, as recorded in the database",
			kept},
		{RelayProgress, "s", "Since a relay with shards last took a shard or stored a position",
			[]string{labelSource, labelOwner}},
		{RelayBrokerAway, "s", "Since the broker of a relay last answered; 0: it answers",
			[]string{labelSource, labelOwner}},
		{Lag, "{message}", "Messages at the broker that the consumer has not acknowledged",
			[]string{labelSource, labelConsumer, labelTopic}},
		{Stopped, "{process}",
			"1 while this process handles nothing, because too many messages failed with one fingerprint",
			[]string{labelConsumer}},
		{StoreFailed, "{failure}",
			"Failed background calls to the store, by operation",
			[]string{labelConsumer, labelOperation}},
		{Missed, "{message}", "Messages that the broker removed before this consumer had read them",
			[]string{labelConsumer}},
		{IntakeTime, "s",
			"Starting to handle a message: one round trip, and the wait for others that handle it or have its entities", []string{labelConsumer, labelTopic}},
		{HandlerTime, "s", "Time of a handler in its transaction, while its entities are locked",
			[]string{labelConsumer, labelTopic}},
		{CacheLookups, "{key}",
			"Keys looked up in a cache in front of the database: hit, miss, or bypassed because it is unavailable",
			[]string{labelOutcome}},
		{Requests, "{request}", "Requests to an idempotent endpoint, by outcome",
			[]string{labelEndpoint, labelOutcome}},
		{RequestTime, "s", "From a request until its answer is ready",
			[]string{labelEndpoint, labelOutcome}},
		onceCalls(), onceTime(),
		{ReservedHeld, "{key}", "Keys reserved by work outside of a transaction; counted up to 10,000",
			kept},
		{ReservedExpired, "{key}",
			"Keys whose lease expired without an answer: the outcome of the work is unknown", kept},
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
		{SagasFailing, "{saga}", "Sagas whose step failed and is retried", saga},
		{SagaFailingAge, "s",
			"Since the first failure in a row of the saga that has failed for longest; 0: there is none", saga},
		{SagasOverdue, "{saga}",
			"Sagas due for more than a minute, or left to another build for 15, that no engine claimed", saga},
		{SagaAge, "s", "Since the oldest saga that has not ended was started; 0: there is none", saga},
		{SagasStarted, "{saga}", "Sagas given to transactions, which may still be rolled back",
			[]string{labelSaga}},
		{SagasEnded, "{saga}", "Sagas that this engine ended, by status", []string{labelSaga, labelOutcome}},
		{SagaTime, "s", "From the start of a saga to its end", []string{labelSaga, labelOutcome}},
		{SagaSteps, "{step}", "Steps that came to an outcome", []string{labelSaga, labelStep, labelOutcome}},
		{SagaStepTime, "s",
			"From when a step could begin, or from its request, to its outcome",
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

// Providers are set by the caller. Nil: OpenTelemetry's global providers, which do nothing until the
// process sets them.
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

// meter creates instruments. If the provider refuses one, only that metric is missing: telemetry never
// stops a component.
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

// see records the value of a gauge.
type see func(name string, v float64, labels metric.ObserveOption)

// watch calls read on every collection, until stop.
func (m meter) watch(read func(context.Context, see), names ...string) (stop func()) {
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

// news reports whether nothing was recorded for topic yet.
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
