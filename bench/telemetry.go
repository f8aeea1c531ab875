package main

import (
	"context"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// A watched process collects its metrics each second and exports every span, to nowhere.
type watched struct {
	meters  *sdkmetric.MeterProvider
	tracers *sdktrace.TracerProvider
}

func (b *bench) watched(ctx context.Context) watched {
	w := watched{
		sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(nowhere{},
			sdkmetric.WithInterval(time.Second)))),
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
