// Package health serves the state of relays, inboxes and engines over HTTP, for probes such as those of
// Kubernetes. It also has an HTTP server that skald.Run can run.
package health

import (
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/skald-go/skald"
)

// Options configures a Handler. The zero value works.
type Options struct {
	Metrics http.Handler // serves /metrics, such as promhttp.Handler(). Nil means that there is no such page
	// Waiting is the text that /readyz returns while the handler has no Part. Default "starting".
	Waiting string
}

// Handler answers GET and HEAD requests for these paths, in plain text:
//
//	/livez    200; 503 after the Run of a Part has ended, so that the process is restarted
//	/readyz   200 while all Parts can work; 503 during an outage of a database or broker, and during shutdown
//	/metrics  the answer of Options.Metrics
//
// Without a Part the process is live and not ready. The methods are safe for concurrent use.
type Handler struct {
	mux http.ServeMux
	o   Options

	mu       sync.Mutex
	names    []string
	parts    []skald.Part
	stopping bool
}

// New returns a Handler for these parts. Pass the Handler to NewServer, or mount it on your own server.
func New(o *Options, parts ...skald.Part) *Handler {
	h := &Handler{}
	if o != nil {
		h.o = *o
	}
	if h.o.Waiting == "" {
		h.o.Waiting = "starting"
	}
	h.mux.HandleFunc("GET /livez", h.answer(func(s skald.Status) bool { return s.Live }))
	h.mux.HandleFunc("GET /readyz", h.answer(func(s skald.Status) bool { return s.Ready }))
	if h.o.Metrics != nil {
		h.mux.Handle("GET /metrics", h.o.Metrics)
	}
	for _, p := range parts {
		h.Add(p.Status().Name, p)
	}
	return h
}

// Add adds p under your own name. If name is empty, the pages show no name for p.
func (h *Handler) Add(name string, p skald.Part) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.names, h.parts = append(h.names, name), append(h.parts, p)
}

// ServeHTTP serves the pages.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// hasPage returns true if the handler has a page at this path.
func (h *Handler) hasPage(path string) bool {
	return path == "/livez" || path == "/readyz" || path == "/metrics" && h.o.Metrics != nil
}

// stop makes /readyz return 503 from now on.
func (h *Handler) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopping = true
}

func (h *Handler) answer(is func(skald.Status) bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		h.mu.Lock()
		names, parts, stopping := h.names, h.parts, h.stopping
		h.mu.Unlock()
		why := ""
		switch {
		case is(skald.Status{Live: true}): // /livez
		case stopping:
			why = "stopping\n"
		case len(parts) == 0:
			why = h.o.Waiting + "\n"
		}
		for i, p := range parts {
			s := p.Status()
			if is(s) {
				continue
			}
			if s.Why == "" {
				s.Why = "not started yet, or ended"
			}
			if names[i] != "" {
				s.Why = fmt.Sprintf("%s: %s", names[i], s.Why)
			}
			why += s.Why + "\n"
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		if why != "" {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, why) // fails if the client has closed the connection
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	}
}
