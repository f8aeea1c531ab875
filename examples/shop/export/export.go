// Package export sends what a process tells OpenTelemetry to where the standard environment variables say, by
// OTLP over HTTP: OTEL_EXPORTER_OTLP_ENDPOINT, or _TRACES_ENDPOINT and _METRICS_ENDPOINT, and what else they
// are beside. Without them nothing is sent, and nobody is asked.
package export

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"

// An Export is what one process sends.
type Export struct {
	// Meters collects for the readers that New was given, and for OTLP.
	Meters *metric.MeterProvider

	spans sdktrace.SpanProcessor // nil: they go nowhere
}

// New is the export of a process of that name, unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES have
// another. A server that is away is no error: what is for it is dropped, as the exporters do.
func New(ctx context.Context, name string, readers ...metric.Reader) (*Export, error) {
	e := &Export{}
	where, err := of(name)
	if err != nil {
		return nil, err
	}
	if set(endpoint, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") {
		to, err := otlpmetrichttp.New(ctx)
		if err != nil {
			return nil, fmt.Errorf("export metrics: %w", err)
		}
		readers = append(slices.Clip(readers), metric.NewPeriodicReader(to))
	}
	if set(endpoint, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") {
		to, err := otlptracehttp.New(ctx)
		if err != nil {
			return nil, fmt.Errorf("export traces: %w", err)
		}
		e.spans = sdktrace.NewBatchSpanProcessor(to)
	}
	o := []metric.Option{metric.WithResource(where)}
	for _, r := range readers {
		o = append(o, metric.WithReader(r))
	}
	e.Meters = metric.NewMeterProvider(o...)
	return e, nil
}

func set(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return os.Getenv(name) != "" })
}

// of is what describes a process, or a service in it.
func of(name string) (*resource.Resource, error) {
	r, err := resource.Merge(resource.NewSchemaless(attribute.String("service.name", name)),
		resource.Environment())
	if err != nil {
		return nil, fmt.Errorf("describe the service %s: %w", name, err)
	}
	return r, nil
}

// Tracers are those of a service of the process: its spans bear its name.
func (e *Export) Tracers(service string) (trace.TracerProvider, error) {
	if e.spans == nil {
		return noop.NewTracerProvider(), nil
	}
	where, err := of(service)
	if err != nil {
		return nil, err
	}
	return sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(e.spans), sdktrace.WithResource(where)), nil
}

// Close sends what is left.
func (e *Export) Close(ctx context.Context) error {
	errs := []error{e.Meters.Shutdown(ctx)}
	if e.spans != nil {
		errs = append(errs, e.spans.Shutdown(ctx))
	}
	return errors.Join(errs...)
}
