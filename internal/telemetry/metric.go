// Package telemetry is what the stations tell OpenTelemetry: the metrics by name, and the trace that goes with a
// message. With no provider set it does nothing but ask whether there is one.
package telemetry

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
)

const scope = "github.com/skald-go/skald"

// The metrics. Alert rules and dashboard speak of these; docs/operations.md says what each means.
const (
	Written        = "skald.outbox.message.written"
	Published      = "skald.outbox.message.published"
	PublishDelay   = "skald.outbox.publish.delay"
	RelayLanes     = "skald.outbox.relay.lanes"
	Pending        = "skald.outbox.message.pending"
	OldestAge      = "skald.outbox.message.oldest_age"
	SetAside       = "skald.outbox.message.set_aside"
	RetainedAge    = "skald.outbox.message.retained_age"
	FreeLanes      = "skald.outbox.lane.free"
	Received       = "skald.inbox.message.received"
	Unacknowledged = "skald.inbox.message.unacknowledged"
	ProcessTime    = "skald.inbox.process.duration"
	ProcessDelay   = "skald.inbox.process.delay"
	StuckKeys      = "skald.inbox.key.stuck"
	PausedLanes    = "skald.inbox.lane.paused"
	Parked         = "skald.inbox.message.parked"
	ParkedSize     = "skald.inbox.message.parked_size"
	ParkedAge      = "skald.inbox.message.parked_age"
	DeadLetters    = "skald.inbox.message.dead"
	Quarantined    = "skald.inbox.message.quarantined"
	QuarantinedAge = "skald.inbox.message.quarantined_age"
	Calls          = "skald.inbox.call.unsettled"
	CallAge        = "skald.inbox.call.unsettled_age"
	Stopped        = "skald.inbox.stopped"
)

// A Metric is one instrument. Units are those of UCUM, as OpenTelemetry asks.
type Metric struct {
	Name, Unit, About string
	Labels            []string
}

// Metrics are all there are.
func Metrics() []Metric {
	backlog, kept := []string{labelSource}, []string{labelSource, labelConsumer}
	return []Metric{
		{Written, "{message}", "Messages given to transactions, which may still be rolled back", []string{labelTopic}},
		{Published, "{message}", "Messages handed to the broker, by what it answered", []string{labelTopic, labelOutcome}},
		{PublishDelay, "s", "From the writing of a message to the broker's acknowledgement", []string{labelTopic}},
		{RelayLanes, "{lane}", "Lanes that this relay holds", []string{labelOwner}},
		{Pending, "{message}", "Messages in the outbox that no relay has published yet; an estimate when they are many", backlog},
		{OldestAge, "s", "Since the oldest of them was written; 0: there is none", backlog},
		{SetAside, "{message}", "Messages that the broker refused, and those that wait behind them", backlog},
		{RetainedAge, "s", "Since the oldest message that is kept was written", backlog},
		{FreeLanes, "{lane}", "Lanes that no living relay holds", backlog},
		{Received, "{message}", "Deliveries, by what became of them", []string{labelConsumer, labelTopic, labelOutcome}},
		{Unacknowledged, "{message}", "Deliveries in memory that are not acknowledged yet", []string{labelConsumer}},
		{ProcessTime, "s", "From the intake of a message to its commit, or to its failure", []string{labelConsumer, labelTopic, labelOutcome}},
		{ProcessDelay, "s", "From the writing of a message to the commit of its effect", []string{labelConsumer, labelTopic}},
		{StuckKeys, "{key}", "Keys whose first message fails again and again", []string{labelConsumer}},
		{PausedLanes, "{lane}", "Lanes that have too much unacknowledged and are paused", []string{labelConsumer}},
		{Parked, "{message}", "Messages that failed and are tried again, and those of their keys behind them", kept},
		{ParkedSize, "By", "Keys and payloads of them", kept},
		{ParkedAge, "s", "Since the oldest of them was parked; 0: there is none", kept},
		{DeadLetters, "{message}", "Dead letters", kept},
		{Quarantined, "{message}", "Messages in quarantine that nobody has admitted", []string{labelSource, labelConsumer, labelOutcome}},
		{QuarantinedAge, "s", "Since the oldest of them came; 0: there is none", kept},
		{Calls, "{call}", "Calls to the outside of which it is not settled what became of them", kept},
		{CallAge, "s", "Since the oldest of them was to be made; 0: there is none", kept},
		{Stopped, "{process}", "1 while this process takes nothing, because too many messages failed in one way", []string{labelConsumer}},
	}
}

const (
	labelTopic    = "destination"
	labelOutcome  = "outcome"
	labelConsumer = "consumer"
	labelSource   = "source"
	labelOwner    = "owner"
)

// Providers are the caller's. Nil: OpenTelemetry's global ones, which do nothing until the process sets them.
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

// meter makes instruments. A provider that refuses one loses that metric: telemetry never stops a station.
type meter struct{ metric.Meter }

func about(name string) Metric {
	for _, m := range Metrics() {
		if m.Name == name {
			return m
		}
	}
	return Metric{Name: name}
}

func (m meter) counter(name string) metric.Int64Counter {
	d := about(name)
	c, err := m.Int64Counter(name, metric.WithUnit(d.Unit), metric.WithDescription(d.About))
	if err != nil {
		otel.Handle(err)
		return noop.Int64Counter{}
	}
	return c
}

func (m meter) histogram(name string) metric.Float64Histogram {
	d := about(name)
	h, err := m.Float64Histogram(name, metric.WithUnit(d.Unit), metric.WithDescription(d.About),
		metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60, 300, 3600))
	if err != nil {
		otel.Handle(err)
		return noop.Float64Histogram{}
	}
	return h
}

// see reports a gauge.
type see func(name string, v float64, labels metric.ObserveOption)

// watch has gauges read whenever somebody collects, until stop.
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

// A set is labels that are used again and again, made once.
type set struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

func newSet(labels ...attribute.KeyValue) set {
	o := metric.WithAttributeSet(attribute.NewSet(labels...))
	return set{[]metric.AddOption{o}, []metric.RecordOption{o}}
}

// sets are the sets of one station, by topic and outcome: as many as it has topics.
type sets struct {
	fixed []attribute.KeyValue
	mu    sync.RWMutex
	by    map[[2]string]set
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
