package telemetry

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestTraceParentThereAndBack(t *testing.T) {
	if got := TraceParent(t.Context()); got != "" {
		t.Errorf("without a span: %q", got)
	}
	if got := TraceParent(Remote(t.Context(), parent)); got != parent {
		t.Errorf("%q came back as %q", parent, got)
	}
	for _, bad := range []string{"", "x", "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
		parent[:54], parent + "\x00"} {
		if trace.SpanContextFromContext(Remote(t.Context(), bad)).IsValid() {
			t.Errorf("%q is taken for a trace", bad)
		}
	}
}

func TestSampled(t *testing.T) {
	for last, want := range map[string]bool{"0": false, "1": true, "2": false, "3": true, "9": true,
		"a": false, "b": true, "f": true} {
		if got := sampled(parent[:54] + last); got != want {
			t.Errorf("flags 0%s: %t", last, got)
		}
	}
	if sampled("") || sampled("1") {
		t.Error("what is no trace context is sampled")
	}
}

func recorder() (*tracetest.SpanRecorder, Providers) {
	seen := tracetest.NewSpanRecorder()
	return seen, Providers{Tracer: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(seen))}
}

// The first attempt belongs to the trace of the writer. Each later one has its own trace with a link to it,
// so 8,000 attempts do not make one trace of 8,000 spans.
func TestLaterAttemptsAreLinked(t *testing.T) {
	seen, p := recorder()
	in := NewInbox(p, "stock")
	m := &skald.Message{ID: "a", Topic: "orders", TraceParent: parent}
	for attempt := 1; attempt <= 3; attempt++ {
		_, span := in.Process(t.Context(), m, attempt)
		End(span, "failed", nil)
	}
	wrote, traces := trace.SpanContextFromContext(Remote(t.Context(), parent)), map[trace.TraceID]bool{}
	for i, s := range seen.Ended() {
		traces[s.SpanContext().TraceID()] = true
		nested := s.Parent().Equal(wrote) && s.SpanContext().TraceID() == wrote.TraceID()
		linked := len(s.Links()) == 1 && s.Links()[0].SpanContext.Equal(wrote) && !s.Parent().IsValid()
		if nested != (i == 0) || linked != (i > 0) {
			t.Errorf("attempt %d is nested: %v, linked: %v", i+1, nested, linked)
		}
	}
	if len(traces) != 3 {
		t.Errorf("3 attempts are in %d traces", len(traces))
	}
}

func TestSendIsLinkedToEverySampledMessage(t *testing.T) {
	seen, p := recorder()
	other := "00-11111111111111111111111111111111-2222222222222222-01"
	msgs := []skald.Message{{ID: "a", Topic: "orders"},
		{ID: "b", Topic: "orders", TraceParent: parent[:53] + "00"},
		{ID: "c", Topic: "orders", TraceParent: parent}, {ID: "d", Topic: "orders", TraceParent: other}}
	r := NewRelay(p)
	if r.Send(msgs[:2]) != nil {
		t.Error("a span for messages that nobody wants to see")
	}
	End(r.Send(msgs), Taken, nil)
	for range 2 * maxLinks {
		msgs = append(msgs, skald.Message{Topic: "more", TraceParent: parent})
	}
	End(r.Send(msgs), NotDone, fmt.Errorf("first line\nsecond line"))
	got := seen.Ended()
	if len(got) != 2 {
		t.Fatalf("%d spans", len(got))
	}
	s := got[0]
	if s.Name() != "send orders" || len(s.Links()) != 2 ||
		TraceParent(trace.ContextWithRemoteSpanContext(t.Context(), s.Links()[1].SpanContext)) != other {
		t.Errorf("%s is linked to %v", s.Name(), s.Links())
	}
	if TraceParent(trace.ContextWithRemoteSpanContext(t.Context(), s.Parent())) != parent {
		t.Errorf("its parent is %v", s.Parent())
	}
	if s := got[1]; s.Name() != "send" || len(s.Links()) != maxLinks ||
		s.Status().Description != "first line" {
		t.Errorf("%s with %d links ended as %v", s.Name(), len(s.Links()), s.Status())
	}
}

// Every metric is registered under its name, with the unit and the labels of the table.
func TestEveryMetricIsExportedAsTheTableSays(t *testing.T) {
	read := metric.NewManualReader()
	p := Providers{Meter: metric.NewMeterProvider(metric.WithReader(read))}
	m := skald.Message{Topic: "orders", Time: time.Now().Add(-time.Second)}
	NewOutbox(p).Wrote(t.Context(), []skald.Message{m, m, {Topic: "payments"}})
	r, in := NewRelay(p), NewInbox(p, "billing")
	r.Took(&m, time.Now())
	r.Refused("orders")
	r.Failed("orders")
	defer r.Watch("me", func() (int, bool) { return 3, true }, func() bool { return true })()
	defer in.Watch(func() InboxState { return InboxState{1, 2, 3, 1, true} })()
	defer WatchBacklog(p, time.Now, func(context.Context) (store.Backlog, error) {
		return store.Backlog{Source: "/orders",
			Consumers: []store.Consumer{{Name: "billing", Topics: []string{"orders"}}},
			Relays:    []store.RelayProgress{{Owner: "me"}},
			Reserved:  []store.ReservedCounts{{Consumer: "http:orders", Held: 1, Expired: 2}},
			Sagas: []store.SagaCounts{{Name: "refund", Running: 3, Compensating: 1, Stuck: 1,
				Oldest: time.Minute}},
			Tracked: []store.TrackedCounts{{Flow: "order", Running: 3, Overdue: 1}}}, nil
	}, Always, func(context.Context, string, []string) (map[string]int64, error) {
		return map[string]int64{"orders": 1}, nil
	}, "billing")()
	in.Ended(&m, "processed", time.Millisecond, true, time.Now())
	in.TookIn("orders", time.Millisecond)
	in.Ran("orders", time.Millisecond)
	NewCache(p).Looked(1, 2, 3)
	sagas := NewSaga(p)
	sagas.Started("refund")
	sagas.Ended("refund", "done", time.Second)
	sagas.Stepped("refund", "pay", "done", time.Second)
	sagas.Failed("refund", "pay", 1)
	sagas.Replied("taken")
	NewEndpoint(p, "orders").Answered(KeyDone, time.Millisecond)
	otel.SetMeterProvider(p.Meter)
	Once("job", KeyDone, time.Millisecond)
	seen := map[string]metricdata.Metrics{}
	for _, x := range collect(t, read) {
		seen[x.Name] = x
	}
	for _, want := range Metrics() {
		x, ok := seen[want.Name]
		delete(seen, want.Name)
		if !ok || x.Unit != want.Unit || x.Description != want.About {
			t.Errorf("%s is exported as %+v", want.Name, x)
			continue
		}
		for _, labels := range labelsOf(x.Data) {
			for _, l := range want.Labels {
				if !labels.HasValue(attribute.Key(l)) || labels.Len() != len(want.Labels) {
					t.Errorf("%s has labels %v, want %v", want.Name, labels.ToSlice(), want.Labels)
				}
			}
		}
	}
	for name := range seen {
		t.Errorf("%s is not in the table", name)
	}
}

// Messages accepted at the same time are counted by topic, each once; the first of each run of a topic
// gives the delay.
func TestRunCountsEachMessageOnce(t *testing.T) {
	read := metric.NewManualReader()
	run := NewRelay(Providers{Meter: metric.NewMeterProvider(metric.WithReader(read))}).Run(time.Now())
	for _, topic := range []string{"orders", "orders", "payments", "orders"} {
		run.Took(&skald.Message{Topic: topic})
	}
	run.End()
	run.End()
	want, delays := map[string]int64{"orders": 3, "payments": 1}, map[string]int64{"orders": 2, "payments": 1}
	for _, m := range collect(t, read) {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				topic, _ := p.Attributes.Value(labelTopic)
				if outcome, _ := p.Attributes.Value(labelOutcome); outcome.AsString() != Taken {
					if p.Value != 0 { // it must exist for an alert on its growth
						t.Errorf("%d of %s are %s", p.Value, topic.AsString(), outcome.AsString())
					}
					continue
				}
				if p.Value != want[topic.AsString()] {
					t.Errorf("%s: %d of %s", m.Name, p.Value, topic.AsString())
				}
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				topic, _ := p.Attributes.Value(labelTopic)
				if int64(p.Count) != delays[topic.AsString()] {
					t.Errorf("%s: %d of %s", m.Name, p.Count, topic.AsString())
				}
			}
		}
	}
}

// Dropped deliveries are counted by topic and outcome, each once, in any order.
func TestCountedCountsEachDeliveryOnce(t *testing.T) {
	read := metric.NewManualReader()
	in := NewInbox(Providers{Meter: metric.NewMeterProvider(metric.WithReader(read))}, "billing")
	for _, one := range [][2]string{{"orders", "duplicate"}, {"orders", "duplicate"}, {"orders", "skipped"},
		{"payments", "duplicate"}, {"orders", "duplicate"}} {
		in.Count(one[0], one[1])
	}
	in.Ended(&skald.Message{Topic: "orders"}, "processed", 0, true, time.Now())
	in.Counted()
	in.Counted()
	want := map[[2]string]int64{{"orders", "duplicate"}: 3, {"orders", "skipped"}: 1,
		{"payments", "duplicate"}: 1, {"orders", "processed"}: 1}
	for _, m := range collect(t, read) {
		if m.Name != Received {
			continue
		}
		for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
			topic, _ := p.Attributes.Value(labelTopic)
			outcome, _ := p.Attributes.Value(labelOutcome)
			k := [2]string{topic.AsString(), outcome.AsString()}
			if p.Value != want[k] {
				t.Errorf("%v: %d, want %d", k, p.Value, want[k])
			}
			delete(want, k)
		}
	}
	if len(want) > 0 {
		t.Errorf("not counted: %v", want)
	}
}

func collect(t *testing.T, from metric.Reader) (out []metricdata.Metrics) {
	t.Helper()
	var got metricdata.ResourceMetrics
	if err := from.Collect(context.Background(), &got); err != nil {
		t.Fatal(err)
	}
	for _, s := range got.ScopeMetrics {
		out = append(out, s.Metrics...)
	}
	return out
}

// The database is queried on collection, at most every 30 s. If the query fails, or another process
// reports, nothing is reported.
func TestBacklogIsQueriedRarely(t *testing.T) {
	read := metric.NewManualReader()
	now, asked, mine, away, slow := time.Now(), 0, true, error(nil), time.Duration(0)
	stop := WatchBacklog(Providers{Meter: metric.NewMeterProvider(metric.WithReader(read))},
		func() time.Time { return now },
		func(context.Context) (store.Backlog, error) {
			asked++
			now = now.Add(slow)
			return store.Backlog{Source: "/orders", Pending: int64(asked)}, away
		}, func() bool { return mine }, nil)
	step := func(doing string, after time.Duration, wantAsked, wantMetrics int) {
		t.Helper()
		now = now.Add(after)
		if got := len(collect(t, read)); got != wantMetrics || asked != wantAsked {
			t.Errorf("%s: %d metrics after %d questions, want %d after %d", doing, got, asked,
				wantMetrics, wantAsked)
		}
	}
	if asked != 0 {
		t.Error("it was asked before anybody collected")
	}
	step("at first", 0, 1, 6)
	step("soon after", 29*time.Second, 1, 6)
	step("later", time.Second, 2, 6)
	away = errors.New("the database is away")
	step("while the database is away", 30*time.Second, 3, 0)
	away, mine = nil, false
	step("while it is another's", time.Hour, 3, 0)
	mine = true
	step("once it is ours", 0, 4, 6)
	slow = 2 * time.Second
	step("when the answer takes 2 s", 30*time.Second, 5, 6)
	step("a minute later", time.Minute, 5, 6)
	step("fifty times as long later", 40*time.Second, 6, 6)
	stop()
	step("after the end", time.Hour, 6, 0)
}

// The kept messages of a consumer are reported even after they are gone, as 0: a missing series would look
// like a dead process.
func TestKeptIsReportedAsZero(t *testing.T) {
	read, now := metric.NewManualReader(), time.Now()
	kept := []store.ConsumerBacklog{{Consumer: "mail", ParkedCounts: store.ParkedCounts{Parked: 2, Dead: 3,
		Bytes: 50, DeadBytes: 70, Oldest: time.Minute},
		Conflicts: 4, TooOld: 5, QuarantineBytes: 90,
		QuarantineAge: time.Hour, Calls: 6, OldestCall: 5 * time.Minute}}
	defer WatchBacklog(Providers{Meter: metric.NewMeterProvider(metric.WithReader(read))},
		func() time.Time { return now },
		func(context.Context) (store.Backlog,
			error) {
			return store.Backlog{Source: "/orders", PerConsumer: kept}, nil
		}, Always, nil, "billing")()
	want := map[string][]float64{Parked: {2}, ParkedSize: {50}, ParkedAge: {60}, DeadLetters: {3},
		DeadSize: {70}, Quarantined: {4, 5}, QuarantinedSize: {90}, QuarantinedAge: {3600},
		Calls: {6}, CallAge: {300}}
	for _, left := range []float64{1, 0} {
		for _, m := range collect(t, read) {
			data := m.Data.(metricdata.Gauge[float64])
			for _, p := range data.DataPoints {
				consumer, some := p.Attributes.Value(labelConsumer)
				if !some {
					continue
				}
				i, v := 0, 0.
				if why, _ := p.Attributes.Value(labelOutcome); why.AsString() == "too_old" {
					i = 1
				}
				if consumer.AsString() == "mail" {
					v = left * want[m.Name][i]
				}
				if p.Value != v {
					t.Errorf("%s is %v for %v, want %v", m.Name, p.Value, p.Attributes.ToSlice(), v)
				}
			}
			if list := want[m.Name]; list != nil && len(data.DataPoints) != 2*len(list) {
				t.Errorf("%s has %d series of two consumers", m.Name, len(data.DataPoints))
			}
		}
		kept, now = nil, now.Add(time.Minute)
	}
}

func labelsOf(a metricdata.Aggregation) (out []attribute.Set) {
	switch d := a.(type) {
	case metricdata.Sum[int64]:
		for _, p := range d.DataPoints {
			out = append(out, p.Attributes)
		}
	case metricdata.Gauge[float64]:
		for _, p := range d.DataPoints {
			out = append(out, p.Attributes)
		}
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			out = append(out, p.Attributes)
		}
	}
	return out
}

// Without a provider a message costs almost nothing and no memory.
func TestOffAllocatesNothing(t *testing.T) {
	o, r, in := NewOutbox(Providers{}), NewRelay(Providers{}), NewInbox(Providers{}, "billing")
	ms := []skald.Message{{Topic: "orders", Time: time.Now()}}
	if n := testing.AllocsPerRun(100, func() {
		o.Wrote(context.Background(), ms)
		End(r.Send(ms), Taken, nil)
		r.Took(&ms[0], ms[0].Time)
		in.Ended(&ms[0], "processed", 1, true, ms[0].Time)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// The fast parser gives the same results as OpenTelemetry's.
func TestOriginIsReadAsOpenTelemetryDoes(t *testing.T) {
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-"
	for _, parent := range []string{
		good + "01", good + "00", good + "03", good + "ff", good + "0", good + "0g", "", "00",
		"ff" + good[2:] + "01", "01" + good[2:] + "01",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
		"00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01", good + "01-more",
	} {
		want := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(t.Context(),
			&carrier{parent}))
		if got := origin(parent); !got.Equal(want) {
			t.Errorf("%q: %+v, want %+v", parent, got, want)
		}
	}
}
