// Package export sends a process's telemetry by OTLP over HTTP, as the standard environment variables
// configure: OTEL_EXPORTER_OTLP_ENDPOINT, or _TRACES_ENDPOINT and _METRICS_ENDPOINT, and their options.
// Without them it sends nothing.
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

// Export sends the telemetry of one process.
type Export struct {
	// Meters collects for the readers of New, and for OTLP.
	Meters *metric.MeterProvider

	spans sdktrace.SpanProcessor // nil: spans are dropped
}

// New returns the export of a process of that name, unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES
// set another name. An unavailable server is no error: the exporters drop its telemetry.
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

// of returns the resource of a process, or of a service in it.
func of(name string) (*resource.Resource, error) {
	r, err := resource.Merge(resource.NewSchemaless(attribute.String("service.name", name)),
		resource.Environment())
	if err != nil {
		return nil, fmt.Errorf("describe the service %s: %w", name, err)
	}
	return r, nil
}

// Tracers returns the tracers of a service in the process; its spans have its name.
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

// Close sends the remaining telemetry.
func (e *Export) Close(ctx context.Context) error {
	errs := []error{e.Meters.Shutdown(ctx)}
	if e.spans != nil {
		errs = append(errs, e.spans.Shutdown(ctx))
	}
	return errors.Join(errs...)
}
