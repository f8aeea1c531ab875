package verbs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/health"
)

// monitor serves /metrics for Prometheus, /livez and /readyz. It starts before the database is opened, so
// that it also answers while the process waits for a server.
type monitor struct {
	meters *metric.MeterProvider
	health *health.Handler
	server *http.Server
	over   chan struct{}
}

// newMonitor listens at addr. With an empty addr it serves nothing.
func newMonitor(addr string, log *slog.Logger) (*monitor, error) {
	registry := prometheus.NewRegistry()
	s := &monitor{meters: metric.NewMeterProvider(), health: health.New(&health.Options{
		Metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), Waiting: "waiting for the database"})}
	if addr == "" {
		return s, nil
	}
	if err := errors.Join(registry.Register(collectors.NewGoCollector()),
		registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
		registry.Register(buildInfo())); err != nil {
		return nil, fmt.Errorf("export metrics: %w", err)
	}
	exporter, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("export metrics: %w", err)
	}
	s.meters = metric.NewMeterProvider(metric.WithReader(exporter))
	at, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, &cli.UsageError{What: fmt.Sprintf("--metrics: %v", err)}
	}
	s.server = &http.Server{Handler: s.health, ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute}
	s.over = make(chan struct{})
	log.Info("metrics", "at", "http://"+at.Addr().String()+"/metrics")
	go func() {
		defer close(s.over)
		if err := s.server.Serve(at); !errors.Is(err, http.ErrServerClosed) {
			log.Warn("metrics", "error", err)
		}
	}()
	return s, nil
}

// buildInfo returns a metric that is always 1. Its labels name this build.
func buildInfo() prometheus.Collector {
	b := cli.This()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "skald_build_info",
		Help:        "Always 1; the labels name the build of this process",
		ConstLabels: prometheus.Labels{"version": b.Version, "commit": b.Commit, "goversion": b.Go}},
		func() float64 { return 1 })
}

// close stops the server.
func (s *monitor) close(ctx context.Context) {
	if s.server != nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if err := s.server.Shutdown(last); err != nil {
			_ = s.server.Close() // cancel a scrape that takes longer than a second
		}
		<-s.over
	}
}
