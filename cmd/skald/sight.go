package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/relay"
)

// A sight serves what is to be seen of a relay's process: /metrics for Prometheus, /livez and /readyz. It stands
// before the database does, so that a process that waits for its servers says so.
type sight struct {
	meters *metric.MeterProvider
	server *http.Server
	over   chan struct{}

	mu     sync.Mutex
	relays []healthy
}

// healthy is a relay, or a room for one.
type healthy interface{ Health() relay.Health }

// newSight listens at addr; an empty one is nothing to see.
func newSight(addr string, log *slog.Logger) (*sight, error) {
	s := &sight{meters: metric.NewMeterProvider()}
	if addr == "" {
		return s, nil
	}
	registry := prometheus.NewRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("export metrics: %w", err)
	}
	s.meters = metric.NewMeterProvider(metric.WithReader(exporter))
	at, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, &place.UsageError{What: fmt.Sprintf("--metrics: %v", err)}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /livez", s.answer(func(h relay.Health) bool { return h.Live }))
	mux.HandleFunc("GET /readyz", s.answer(func(h relay.Health) bool { return h.Ready }))
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second}
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

// see adds a relay to those that are asked.
func (s *sight) see(r healthy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.relays = append(s.relays, r)
}

// answer is 200 if it is so of every relay, else 503 with the reasons. Before there is a relay the process lives and
// is not ready.
func (s *sight) answer(so func(relay.Health) bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		var why string
		if len(s.relays) == 0 && !so(relay.Health{Live: true}) {
			why = "waiting for the database\n"
		}
		for _, r := range s.relays {
			if h := r.Health(); !so(h) {
				why += h.Why + "\n"
			}
		}
		if why != "" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, why+map[bool]string{true: "ok\n"}[why == ""]) // who asked may have gone
	}
}

// close ends what is open.
func (s *sight) close(ctx context.Context) {
	if s.server != nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if err := s.server.Shutdown(last); err != nil {
			_ = s.server.Close() // a scrape that takes longer than a second ends with the process
		}
		<-s.over
	}
}
