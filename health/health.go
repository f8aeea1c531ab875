// Package health serves how the stations of a process do over HTTP: for probes of an orchestrator, and for
// whoever scrapes metrics.
package health

import (
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/saga"
)

// Options of a Handler. The zero value works.
type Options struct {
	Metrics http.Handler // of /metrics, promhttp's for one. Nil: there is no such page
	// Waiting is why the process is not ready while nothing was added yet. Default "starting".
	Waiting string
}

// A Status is what a station says of itself, by a name that an operator knows.
type Status struct {
	Live, Ready bool
	Why         string // it is not
}

// A Handler answers GET and HEAD of these paths, each in plain text:
//
//	/livez    200 while the process should go on, 503 once a station has ended: restart it
//	/readyz   200 while all stations can work, 503 during an outage of a database or broker: do not restart for that
//	/metrics  what Options.Metrics serves
//
// Before anything was added the process lives and is not ready. Its methods are safe for concurrent use.
type Handler struct {
	mux http.ServeMux
	o   Options

	mu    sync.Mutex
	names []string
	asked []func() Status
}

// New is a Handler. Mount it at the root of a server of its own, or under a prefix by http.StripPrefix.
func New(o *Options) *Handler {
	h := &Handler{}
	if o != nil {
		h.o = *o
	}
	if h.o.Waiting == "" {
		h.o.Waiting = "starting"
	}
	h.mux.HandleFunc("GET /livez", h.answer(func(s Status) bool { return s.Live }))
	h.mux.HandleFunc("GET /readyz", h.answer(func(s Status) bool { return s.Ready }))
	if h.o.Metrics != nil {
		h.mux.Handle("GET /metrics", h.o.Metrics)
	}
	return h
}

// Add has a station asked at each request. Name is put before what it says; "" where there is only one.
func (h *Handler) Add(name string, ask func() Status) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.names, h.asked = append(h.names, name), append(h.asked, ask)
}

// A Relay is a *relay.Relay.
type Relay interface{ Health() relay.Health }

// AddRelay adds a relay.
func (h *Handler) AddRelay(name string, r Relay) {
	h.Add(name, func() Status {
		is := r.Health()
		return Status{is.Live, is.Ready, is.Why}
	})
}

// An Inbox is an *inbox.Inbox of any driver.
type Inbox interface{ Health() inbox.Health }

// AddInbox adds an inbox.
func (h *Handler) AddInbox(name string, in Inbox) {
	h.Add(name, func() Status {
		is := in.Health()
		return Status{is.Live, is.Ready, is.Why}
	})
}

// An Engine is a *saga.Engine of any driver.
type Engine interface{ Health() saga.Health }

// AddEngine adds an engine of sagas.
func (h *Handler) AddEngine(name string, e Engine) {
	h.Add(name, func() Status {
		is := e.Health()
		return Status{is.Live, is.Ready, is.Why}
	})
}

// ServeHTTP serves the pages.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

func (h *Handler) answer(so func(Status) bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		h.mu.Lock()
		names, asked := h.names, h.asked
		h.mu.Unlock()
		why := ""
		if len(asked) == 0 && !so(Status{Live: true}) {
			why = h.o.Waiting + "\n"
		}
		for i, ask := range asked {
			s := ask()
			if so(s) {
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
			_, _ = io.WriteString(w, why) // who asked may have gone
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	}
}
