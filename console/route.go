package console

import (
	"net/http"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/console/internal/view"
)

// route is a page of the console, or the action of a form.
type route struct {
	method, path string
	needs        page.Right // the rights that the user needs in addition to View
	answer       func(*page.Request) (page.View, error)
}

func (h *handler) routes() []route {
	return []route{
		{"GET", "/{$}", 0, view.Overview},
		{"GET", "/dead", 0, view.Dead},
		{"GET", "/dead/groups", 0, view.Groups},
		{"GET", "/parked", 0, view.Parked},
		{"GET", "/message", 0, h.messages.Message},
		{"POST", "/message/payload", page.Payloads, h.messages.Payload},
		{"GET", "/act", page.Act, view.Show},
		{"POST", "/act", page.Act, view.Actor{Jobs: h.jobs}.Act},
		{"GET", "/runs", 0, h.jobs.Runs},
		{"GET", "/run", 0, h.jobs.Run},
		{"POST", "/run/stop", page.Act, h.jobs.Stop},
		{"POST", "/run/resume", page.Act, h.jobs.Resume},
		{"GET", "/quarantine", 0, view.Quarantine},
		{"GET", "/consumer", 0, view.Consumer},
		{"GET", "/audit", 0, view.List},
		{"GET", "/flows", 0, view.Flows},
		{"GET", "/sagas", 0, view.SagaList},
		{"GET", "/saga", 0, h.sagas.Saga},
		{"POST", "/saga/data", page.Payloads, h.sagas.Data},
		{"GET", "/story", 0, view.Of},
		{"GET", "/definitions", 0, view.Definitions},
		{"GET", "/definition", 0, view.Definition},
		{"GET", "/calls", 0, view.Calls},
		{"GET", "/outbox", 0, view.Outbox},
		{"GET", "/locks", 0, view.Locks},
		{"GET", "/doctor", 0, view.Doctor},
		{"GET", "/session", 0, session},
		{"GET", "/openapi.json", 0, page.OpenAPI},
		{"GET", "/static/{name}", 0, page.Static},
	}
}

// routed serves the pages. It renders the errors of the mux (404 and 405) as pages, too.
func (h *handler) routed(w http.ResponseWriter, r *http.Request) {
	lost, pattern := h.mux.Handler(r)
	if pattern != "" {
		h.mux.ServeHTTP(w, r)
		return
	}
	recorded := &headerRecorder{head: http.Header{}}
	lost.ServeHTTP(recorded, r)
	err := page.NewRefusal(http.StatusNotFound, "page not found")
	if recorded.code == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", recorded.head.Get("Allow"))
		err = page.NewRefusal(recorded.code, "this page does not support %.16s, only %s", r.Method,
			recorded.head.Get("Allow"))
	}
	h.guarded(route{answer: func(*page.Request) (page.View, error) { return nil, err }}).ServeHTTP(w, r)
}

// headerRecorder is an http.ResponseWriter that records the status and the headers, and drops the body.
type headerRecorder struct {
	head http.Header
	code int
}

func (t *headerRecorder) Header() http.Header         { return t.head }
func (t *headerRecorder) WriteHeader(code int)        { t.code = code }
func (t *headerRecorder) Write(b []byte) (int, error) { return len(b), nil }

// guarded returns a handler for a route that refuses users without the rights that the route needs.
func (h *handler) guarded(to route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var v page.View
		given, err := h.guard.Admit(r, to.needs, to.method == http.MethodPost)
		q := h.site.Request(r, given)
		if err == nil {
			v, err = to.answer(q)
		}
		q.Render(w, v, err)
	})
}
