package telemetry

import (
	"context"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/skald-go/skald"
)

// BenchmarkMessage is all telemetry of one message: written, sent, processed.
func BenchmarkMessage(b *testing.B) {
	on := Providers{
		Meter:  metric.NewMeterProvider(metric.WithReader(metric.NewManualReader())),
		Tracer: sdktrace.NewTracerProvider(),
	}
	for name, c := range map[string]struct {
		p      Providers
		parent string
	}{"off": {}, "metrics": {Providers{Meter: on.Meter}, parent}, "metrics and traces": {on, parent}} {
		b.Run(name, func(b *testing.B) {
			o, r, in := NewOutbox(c.p), NewRelay(c.p), NewInbox(c.p, "billing")
			ms := []skald.Message{{ID: "m-1", Topic: "orders", Time: time.Now(), TraceParent: c.parent}}
			b.ReportAllocs()
			for b.Loop() {
				ctx := Remote(context.Background(), c.parent)
				_ = TraceParent(ctx)
				o.Wrote(ctx, ms)
				End(r.Send(ms), Taken, nil)
				r.Took(&ms[0], ms[0].Time)
				_, span := in.Process(context.Background(), &ms[0], 1)
				End(span, "processed", nil)
				in.Ended(&ms[0], "processed", time.Millisecond, true, ms[0].Time)
			}
		})
	}
}

// BenchmarkTook is the telemetry of each row in a relay's page.
func BenchmarkTook(b *testing.B) {
	r := NewRelay(Providers{Meter: metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))})
	m, now := skald.Message{Topic: "orders", Time: time.Now()}, time.Now()
	b.Run("alone", func(b *testing.B) {
		for b.Loop() {
			r.Took(&m, now)
		}
	})
	b.Run("in a run", func(b *testing.B) {
		run := r.Run(now)
		for b.Loop() {
			run.Took(&m)
		}
		run.End()
	})
}

// BenchmarkCount is the telemetry of each dropped delivery in an inbox.
func BenchmarkCount(b *testing.B) {
	in := NewInbox(Providers{Meter: metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))},
		"billing")
	b.Run("alone", func(b *testing.B) {
		for b.Loop() {
			in.Count("orders", "duplicate")
			in.Counted()
		}
	})
	b.Run("in a run", func(b *testing.B) {
		for b.Loop() {
			in.Count("orders", "duplicate")
		}
	})
}
