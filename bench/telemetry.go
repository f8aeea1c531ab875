package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/store/pgstore"
)

const nothing, everything = "telemetry off", "telemetry on: metrics, and every message traced"

// A watched process collects its metrics each second and exports every span, to nowhere.
type watched struct {
	meters  *sdkmetric.MeterProvider
	tracers *sdktrace.TracerProvider
}

func (b *bench) watched(ctx context.Context) watched {
	w := watched{
		sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(nowhere{}, sdkmetric.WithInterval(time.Second)))),
		sdktrace.NewTracerProvider(sdktrace.WithBatcher(nowhere{})),
	}
	b.undo = append(b.undo, func() error { return w.meters.Shutdown(context.WithoutCancel(ctx)) },
		func() error { return w.tracers.Shutdown(context.WithoutCancel(ctx)) })
	return w
}

type nowhere struct{}

func (nowhere) Temporality(k sdkmetric.InstrumentKind) metricdata.Temporality {
	return sdkmetric.DefaultTemporalitySelector(k)
}

func (nowhere) Aggregation(k sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(k)
}

func (nowhere) Export(context.Context, *metricdata.ResourceMetrics) error  { return nil }
func (nowhere) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (nowhere) ForceFlush(context.Context) error                           { return nil }
func (nowhere) Shutdown(context.Context) error                             { return nil }

// watchedBars: what telemetry costs is time of this process; the rate shows it only on a machine that does nothing else.
func watchedBars() []bar {
	return []bar{
		{what: "CPU of the client and PostgreSQL, with ÷ without", of: everything, to: []string{nothing}, value: cpu, most: 1.05},
		{what: "time with telemetry ÷ without", of: everything, to: []string{nothing}, value: cost, most: 1.05},
	}
}

func watchedWrites() comparison {
	return comparison{
		name:  "telemetry-write",
		title: "one event in the caller's transaction, 16 clients, telemetry off and on",
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			w, err := b.writing(ctx)
			if err != nil {
				return nil, err
			}
			seen := b.watched(ctx)
			traced, span := seen.tracers.Tracer("bench").Start(ctx, "request")
			span.End()
			event, value := skald.Event[order]{Topic: "orders", Type: "order.placed"}, newOrder(1)
			on := outbox.New[pgx.Tx](pgstore.New(w.pool, nil), &outbox.Options{MeterProvider: seen.meters})
			return []contender{
				{nothing, w.empty, w.turn(1, func(ctx context.Context, tx pgx.Tx) error {
					return w.out.Write(ctx, tx, event.New(orderKey(w.n.Add(1)), value))
				})},
				{everything, w.empty, w.turn(1, func(ctx context.Context, tx pgx.Tx) error {
					ctx = trace.ContextWithSpan(ctx, trace.SpanFromContext(traced))
					return on.Write(ctx, tx, event.New(orderKey(w.n.Add(1)), value))
				})},
			}, nil
		},
		bars: watchedBars(),
	}
}

func watchedMessages() comparison {
	return comparison{
		name:  "telemetry-message",
		title: "an idempotent message, its handler one INSERT and one event, 16 workers, telemetry off and on",
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			t, err := b.till(ctx)
			if err != nil {
				return nil, err
			}
			seen := b.watched(ctx)
			return []contender{
				{nothing, t.empty, t.inbox},
				{everything, t.empty, func(ctx context.Context, m *meter) error {
					return t.inboxWith(ctx, m, func(f *feed) *inbox.Inbox[pgx.Tx] {
						return t.consumeWith(f, inbox.Options{MeterProvider: seen.meters, TracerProvider: seen.tracers}, &outbox.Options{MeterProvider: seen.meters})
					}, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
				}},
			}, nil
		},
		bars: watchedBars(),
	}
}

func (t *till) inbox(ctx context.Context, m *meter) error { return t.inboxWith(ctx, m, t.consume, "") }

// inboxWith measures an inbox whose messages have that trace context.
func (t *till) inboxWith(ctx context.Context, m *meter, consume func(*feed) *inbox.Inbox[pgx.Tx], parent string) error {
	var over atomic.Bool
	in := consume(newFeed(func() (skald.Message, bool) {
		msg := newMessage(t.n.Add(1), t.data)
		msg.TraceParent = parent
		return msg, !over.Load()
	}))
	m.r.Concurrency = workers
	stop, ended := start(ctx, in)
	defer stop()
	if err := m.over(ctx, ended, func() int64 { return in.Health().Handled }); err != nil {
		return err
	}
	over.Store(true)
	stop()
	if err := <-ended; err != nil {
		return err
	}
	return t.check(ctx, in.Health().Handled)
}
