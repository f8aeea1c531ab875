package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/export"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/health"
)

// sight is the telemetry of a process: /metrics for Prometheus, and OTLP if the environment sets it.
type sight struct {
	*export.Export
	web    *health.Server // nil without an address for metrics
	health *health.Handler
}

func newSight(ctx context.Context, addr string, out io.Writer) (*sight, error) {
	s := &sight{health: health.New(nil)}
	var readers []metric.Reader
	if addr != "" {
		registry := prometheus.NewRegistry()
		exporter, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo())
		if err != nil {
			return nil, fmt.Errorf("export metrics: %w", err)
		}
		s.health = health.New(&health.Options{Metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
			Waiting: "waiting for a server"})
		web, at, err := listen(addr, s.health)
		if err != nil {
			return nil, err
		}
		s.web = web
		fmt.Fprintf(out, "metrics: http://%s/metrics\n", at)
		readers = append(readers, exporter)
	}
	var err error
	s.Export, err = export.New(ctx, "shop", readers...)
	return s, err
}

func (s *sight) runners() []skald.Runner {
	if s.web == nil {
		return nil
	}
	return []skald.Runner{s.web}
}

// into makes a service report here.
func (s *sight) into(o *service.Options, name string) (trace.TracerProvider, error) {
	tracers, err := s.Tracers(name)
	o.Outbox.MeterProvider, o.Inbox.MeterProvider, o.Relay.MeterProvider = s.Meters, s.Meters, s.Meters
	o.Inbox.TracerProvider, o.Relay.TracerProvider = tracers, tracers
	return tracers, err
}

// close sends the remaining telemetry. It is lost if the server is unavailable.
func (s *sight) close(ctx context.Context, log *slog.Logger) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := s.Close(last); err != nil {
		log.Warn("could not send the last telemetry", "error", err)
	}
}

// traced adds a span to each request, in the caller's trace if there is one.
func traced(h http.Handler, tracers trace.TracerProvider) http.Handler {
	tracer := tracers.Tracer("shop")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := tracer.Start(ctx, r.Method+" "+r.URL.Path, trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}
