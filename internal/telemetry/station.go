package telemetry

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/skald-go/skald"
)

// Outbox counts written messages.
type Outbox struct {
	written metric.Int64Counter
	labels  sets
}

// NewOutbox returns the telemetry of an outbox.
func NewOutbox(p Providers) *Outbox { return &Outbox{written: p.meter().counter(Written)} }

// Wrote counts the messages ms as written.
func (o *Outbox) Wrote(ctx context.Context, ms []skald.Message) {
	if !o.written.Enabled(ctx) {
		return
	}
	for len(ms) > 0 {
		n := 1
		for n < len(ms) && ms[n].Topic == ms[0].Topic {
			n++
		}
		o.written.Add(ctx, int64(n), o.labels.of(ms[0].Topic, "").add...)
		ms = ms[n:]
	}
}

// Outcomes of publishing a message.
const (
	Taken   = "published"
	Aside   = "deferred" // the broker refused the message; the relay retries it at growing intervals
	NotDone = "failed"   // the broker did not answer or did not accept the message yet; retried at once
)

// Relay records the messages that a relay publishes.
type Relay struct {
	tracer    trace.Tracer
	published metric.Int64Counter
	delay     metric.Float64Histogram
	labels    sets
	meter     meter
}

// NewRelay returns the telemetry of a relay.
func NewRelay(p Providers) *Relay {
	m := p.meter()
	return &Relay{tracer: p.tracer(), published: m.counter(Published), delay: m.histogram(PublishDelay),
		meter: m}
}

// Watch reports the state of a relay until the caller calls stop: the number of its shards, and whether it
// is ready. It also reports whether the relay polls because it cannot read commits from the WAL.
func (r *Relay) Watch(owner string, now func() (shards int, ready bool), polls func() bool) (stop func()) {
	labels := metric.WithAttributeSet(attribute.NewSet(attribute.String(labelOwner, owner)))
	return r.meter.watch(func(_ context.Context, gauge recordGauge) {
		shards, ready := now()
		gauge(RelayShards, float64(shards), labels)
		gauge(RelayReady, one(ready), labels)
		gauge(RelayDeaf, one(polls()), labels)
	}, RelayShards, RelayReady, RelayDeaf)
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Took records a message that the broker accepted at this time.
func (r *Relay) Took(m *skald.Message, at time.Time) {
	run := r.Run(at)
	run.Took(m)
	run.End()
}

// Run returns a recorder for messages of one shard that the broker accepted at the same time. The recorder
// counts consecutive messages of a topic together, and records only the delay of the first message, which is
// the longest. To record each delay would slow down the relay of a large backlog.
func (r *Relay) Run(at time.Time) Run { return Run{relay: r, at: at} }

// Run records messages of one shard: see Relay.Run. Call Took for each message, and then End.
type Run struct {
	relay *Relay
	at    time.Time
	n     int64 // the number of messages of topic that are not recorded yet
	topic string
}

// Took adds the next message, in order.
func (t *Run) Took(m *skald.Message) {
	if t.n == 0 || t.topic != m.Topic {
		t.End()
		t.topic = m.Topic
		t.relay.startTopic(m.Topic)
		if ctx := context.Background(); t.relay.delay.Enabled(ctx) {
			t.relay.delay.Record(ctx, max(0, t.at.Sub(m.Time).Seconds()),
				t.relay.labels.of(m.Topic, "").record...)
		}
	}
	t.n++
}

// End records the remaining messages.
func (t *Run) End() {
	if ctx := context.Background(); t.n > 0 && t.relay.published.Enabled(ctx) {
		t.relay.published.Add(ctx, t.n, t.relay.labels.of(t.topic, Taken).add...)
	}
	t.n = 0
}

// startTopic starts the counters of a topic at 0, so that a rate includes the first failure.
func (r *Relay) startTopic(topic string) {
	if ctx := context.Background(); r.published.Enabled(ctx) && r.labels.news(topic) {
		for _, outcome := range []string{Taken, Aside, NotDone} {
			r.published.Add(ctx, 0, r.labels.of(topic, outcome).add...)
		}
	}
}

// Refused counts a message that the broker refused, for the first time or again.
func (r *Relay) Refused(topic string) { r.count(topic, Aside) }

// Failed counts a failed publish of a message. The relay publishes this message again immediately.
func (r *Relay) Failed(topic string) { r.count(topic, NotDone) }

func (r *Relay) count(topic, outcome string) {
	r.startTopic(topic)
	if ctx := context.Background(); r.published.Enabled(ctx) {
		r.published.Add(ctx, 1, r.labels.of(topic, outcome).add...)
	}
}

const maxLinks = 128 // OpenTelemetry's default limit

// Send starts the span of one call to the broker. The span belongs to the trace of the first sampled
// message, and has links to at most 128 sampled messages. Send returns nil if no message is sampled.
func (r *Relay) Send(msgs []skald.Message) trace.Span {
	ctx, first := context.Background(), -1
	for i := range msgs {
		if sampled(msgs[i].TraceParent) {
			first = i
			break
		}
	}
	if first < 0 {
		return nil
	}
	from := Remote(ctx, msgs[first].TraceParent)
	_, span := r.tracer.Start(from, sendName(msgs), trace.WithSpanKind(trace.SpanKindProducer))
	if !span.IsRecording() {
		return span
	}
	span.SetAttributes(attribute.String("messaging.operation.name", "send"),
		attribute.String("messaging.operation.type", "send"),
		attribute.String("messaging.destination.name", msgs[first].Topic),
		attribute.Int("messaging.batch.message_count", len(msgs)))
	links := 0
	for i := first; i < len(msgs) && links < maxLinks; i++ {
		if sampled(msgs[i].TraceParent) {
			links++
			span.AddLink(trace.Link{SpanContext: origin(msgs[i].TraceParent),
				Attributes: []attribute.KeyValue{attribute.String("messaging.message.id", msgs[i].ID)}})
		}
	}
	return span
}

// sendName returns the name of the span. It contains the topic if all messages have the same topic.
func sendName(msgs []skald.Message) string {
	for i := range msgs {
		if msgs[i].Topic != msgs[0].Topic {
			return "send"
		}
	}
	return "send " + msgs[0].Topic
}

// Inbox records the messages of one consumer.
type Inbox struct {
	consumer string
	tracer   trace.Tracer
	received metric.Int64Counter
	duration metric.Float64Histogram
	delay    metric.Float64Histogram
	intake   metric.Float64Histogram
	handler  metric.Float64Histogram
	failed   metric.Int64Counter
	missed   metric.Int64Counter
	labels   sets
	meter    meter
	run      counted
}

// counted is a number of deliveries with the same topic and outcome that are not recorded yet.
type counted struct {
	topic, outcome string
	n              int64
}

// NewInbox returns the telemetry of an inbox.
func NewInbox(p Providers, consumer string) *Inbox {
	m := p.meter()
	i := &Inbox{consumer: consumer, tracer: p.tracer(), meter: m,
		labels:   sets{fixed: []attribute.KeyValue{attribute.String(labelConsumer, consumer)}},
		received: m.counter(Received), failed: m.counter(StoreFailed), missed: m.counter(Missed),
		duration: m.histogram(ProcessTime), delay: m.histogram(ProcessDelay),
		intake: m.histogram(IntakeTime), handler: m.histogram(HandlerTime)}
	i.failing("claim parked messages", 0) // start the counter at 0, so that a rate includes the first failure
	i.Missed(0)
	return i
}

// Begin starts the counters of topics at 0, so that a rate includes the first failure.
func (i *Inbox) Begin(topics []string) {
	ctx := context.Background()
	if !i.received.Enabled(ctx) {
		return
	}
	for _, topic := range topics {
		for _, outcome := range []string{"processed", "duplicate", "rejected", "skipped", "failed", "dead",
			"conflict", "too_old", "outage"} {
			i.received.Add(ctx, 0, i.labels.of(topic, outcome).add...)
		}
	}
}

// InboxState is the state of an inbox.
type InboxState struct {
	Unacknowledged, Stuck, Paused, Stopped int
	Ready                                  bool
}

// Watch reports the state of the inbox until the caller calls stop.
func (i *Inbox) Watch(now func() InboxState) (stop func()) {
	labels := metric.WithAttributeSet(attribute.NewSet(attribute.String(labelConsumer, i.consumer)))
	return i.meter.watch(func(_ context.Context, gauge recordGauge) {
		s := now()
		gauge(Unacknowledged, float64(s.Unacknowledged), labels)
		gauge(StuckKeys, float64(s.Stuck), labels)
		gauge(PausedPartitions, float64(s.Paused), labels)
		gauge(Stopped, float64(s.Stopped), labels)
		gauge(InboxReady, one(s.Ready), labels)
	}, Unacknowledged, StuckKeys, PausedPartitions, Stopped, InboxReady)
}

// Process starts the span of one attempt to handle a message. The span of the first attempt is a child of
// the span in which the message was written. Each later attempt begins a new trace with a link to that span,
// so that a trace does not grow with the attempts. Messages that the handler writes with the returned
// context belong to the trace of the attempt.
func (i *Inbox) Process(ctx context.Context, m *skald.Message, attempt int) (context.Context, trace.Span) {
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer)}
	if attempt > 1 {
		options = append(options, trace.WithNewRoot())
		if wrote := origin(m.TraceParent); wrote.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: wrote}))
		}
	}
	ctx, span := i.tracer.Start(Remote(ctx, m.TraceParent), "process "+m.Topic, options...)
	if span.IsRecording() {
		span.SetAttributes(attribute.String("messaging.operation.name", "process"),
			attribute.String("messaging.operation.type", "process"),
			attribute.String("messaging.destination.name", m.Topic),
			attribute.String("messaging.consumer.group.name", i.consumer),
			attribute.String("messaging.message.id", m.ID),
			attribute.String("messaging.message.conversation_id", m.CorrelationID),
			attribute.String("skald.message.type", m.Type), attribute.Int("skald.attempt", attempt))
	}
	return ctx, span
}

// End ends a span with an outcome. span may be nil.
func End(span trace.Span, outcome string, err error) {
	if span == nil {
		return
	}
	if span.IsRecording() {
		span.SetAttributes(attribute.String("skald.outcome", outcome))
		if err != nil {
			why, _, _ := strings.Cut(err.Error(), "\n") // without the stack of a panic
			span.SetStatus(codes.Error, why)
		}
	}
	span.End()
}

// Count counts the outcome of one delivery. It records consecutive equal outcomes together, because a
// consumer may drop many deliveries in a short time. Call Counted to record the last ones. Only one
// goroutine at a time may call Count and Counted.
func (i *Inbox) Count(topic, outcome string) {
	if i.run.topic != topic || i.run.outcome != outcome {
		i.Counted()
		i.run.topic, i.run.outcome = topic, outcome
	}
	i.run.n++
}

// Counted records the deliveries that Count has not recorded yet.
func (i *Inbox) Counted() {
	i.add(i.run.topic, i.run.outcome, i.run.n)
	i.run.n = 0
}

func (i *Inbox) add(topic, outcome string, n int64) {
	if ctx := context.Background(); n > 0 && i.received.Enabled(ctx) {
		i.received.Add(ctx, n, i.labels.of(topic, outcome).add...)
	}
}

// Failing counts a failed call to the store. doing names the operation.
func (i *Inbox) Failing(doing string) { i.failing(doing, 1) }

func (i *Inbox) failing(doing string, n int64) {
	if ctx := context.Background(); i.failed.Enabled(ctx) {
		i.failed.Add(ctx, n, metric.WithAttributes(attribute.String(labelConsumer, i.consumer),
			attribute.String(labelOperation, doing)))
	}
}

// TookIn records the time that an attempt took to begin: see IntakeTime.
func (i *Inbox) TookIn(topic string, took time.Duration) { i.record(i.intake, topic, took) }

// Ran records the duration of a handler.
func (i *Inbox) Ran(topic string, took time.Duration) { i.record(i.handler, topic, took) }

func (i *Inbox) record(h metric.Float64Histogram, topic string, took time.Duration) {
	if ctx := context.Background(); h.Enabled(ctx) {
		h.Record(ctx, took.Seconds(), i.labels.of(topic, "").record...)
	}
}

// Missed counts messages that the broker removed unread.
func (i *Inbox) Missed(n int64) {
	if ctx := context.Background(); i.missed.Enabled(ctx) {
		i.missed.Add(ctx, n, metric.WithAttributes(attribute.String(labelConsumer, i.consumer)))
	}
}

// Ended records the end of one attempt. The argument committed reports whether its effect is committed.
func (i *Inbox) Ended(m *skald.Message, outcome string, took time.Duration, committed bool, now time.Time) {
	ctx := context.Background()
	i.add(m.Topic, outcome, 1)
	if i.duration.Enabled(ctx) {
		i.duration.Record(ctx, took.Seconds(), i.labels.of(m.Topic, outcome).record...)
	}
	if committed && !m.Time.IsZero() && i.delay.Enabled(ctx) {
		i.delay.Record(ctx, max(0, now.Sub(m.Time).Seconds()), i.labels.of(m.Topic, "").record...)
	}
}
