package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/skald-go/skald"
)

const (
	headerTimeout = 10 * time.Second // the default of ReadHeaderTimeout
	drain         = 10 * time.Second // limits the wait for requests in progress
)

// Server is an HTTP server that implements skald.Part. skald.Run stops it last, so that it answers probes
// until the handlers and relays have ended.
type Server struct {
	http   *http.Server
	health *Handler
	name   string

	mu       sync.Mutex
	listener net.Listener
	ended    bool
}

// NewServer returns a Server that serves the pages of h, and s.Handler for all other paths. If s.Handler is
// nil, it serves only the pages of h. If h is nil, it serves only s.Handler. A ReadHeaderTimeout of 0 becomes
// 10 s. If s.TLSConfig is set, the server uses TLS. The caller must not use s afterwards.
func NewServer(s *http.Server, h *Handler) *Server {
	own := &Server{http: s, health: h, name: "HTTP server " + s.Addr}
	if s.ReadHeaderTimeout == 0 {
		s.ReadHeaderTimeout = headerTimeout
	}
	rest := s.Handler
	switch {
	case h == nil:
	case rest == nil:
		s.Handler = h
	default:
		s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if h.hasPage(r.URL.Path) {
				h.ServeHTTP(w, r)
				return
			}
			rest.ServeHTTP(w, r)
		})
	}
	return own
}

// Listen opens the listener and returns its address. Run calls it, too. Call it before Run to get an error
// immediately, or to get the port if the address has port 0.
func (s *Server) Listen() (net.Addr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		addr := s.http.Addr
		if addr == "" {
			addr = ":http"
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		s.listener = l
	}
	return s.listener.Addr(), nil
}

// Run serves requests until ctx is done. Then it accepts no more connections, and waits at most 10 s for
// requests in progress. After that it closes their connections, and logs this. Run returns an error if it
// cannot listen.
func (s *Server) Run(ctx context.Context) error {
	defer s.end()
	if _, err := s.Listen(); err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() {
		if s.http.TLSConfig != nil {
			served <- s.http.ServeTLS(s.listener, "", "")
			return
		}
		served <- s.http.Serve(s.listener)
	}()
	select {
	case err := <-served:
		return fmt.Errorf("%s: %w", s.name, err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	err := s.http.Shutdown(last)
	if errors.Is(err, context.DeadlineExceeded) {
		slog.WarnContext(ctx, "health: closed the connections of requests in progress", "server", s.name, "after",
			drain)
		err = s.http.Close()
	}
	if err != nil {
		return fmt.Errorf("%s: stop: %w", s.name, err)
	}
	return nil
}

// Stopping makes /readyz return 503. skald.Run calls it when the shutdown begins.
func (s *Server) Stopping() {
	if s.health != nil {
		s.health.stop()
	}
}

// Status returns the name, the stage and the state of the server.
func (s *Server) Status() skald.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := skald.Status{Name: s.name, Stage: skald.Serving, Live: !s.ended}
	switch {
	case s.ended:
		is.Why = "ended"
	case s.listener == nil:
		is.Why = "not started yet"
	default:
		is.Ready = true
	}
	return is
}

func (s *Server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}
