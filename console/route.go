package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/skald-go/skald/operate"
)

// A route is a page, or what a form does.
type route struct {
	method, path string
	needs        Right // beside View
	answer       func(*request) (view, error)
}

func routes() []route {
	return []route{
		{"GET", "/{$}", 0, overview},
		{"GET", "/dead", 0, deadList},
		{"GET", "/dead/groups", 0, deadGroups},
		{"GET", "/parked", 0, parkedList},
		{"GET", "/message", 0, message},
		{"POST", "/message/payload", Payloads, payload},
		{"GET", "/act", Act, planned},
		{"POST", "/act", Act, act},
		{"GET", "/runs", 0, runs},
		{"GET", "/run", 0, run},
		{"POST", "/run/stop", Act, stopRun},
		{"POST", "/run/resume", Act, resumeRun},
		{"GET", "/quarantine", 0, quarantine},
		{"GET", "/consumer", 0, consumerOf},
		{"GET", "/audit", 0, audit},
		{"GET", "/flows", 0, flowList},
		{"GET", "/sagas", 0, sagaList},
		{"GET", "/saga", 0, sagaOf},
		{"POST", "/saga/data", Payloads, sagaData},
		{"GET", "/story", 0, story},
		{"GET", "/definitions", 0, definitions},
		{"GET", "/definition", 0, definition},
		{"GET", "/calls", 0, calls},
		{"GET", "/outbox", 0, shards},
		{"GET", "/locks", 0, locks},
		{"GET", "/doctor", 0, doctor},
		{"GET", "/session", 0, session},
		{"GET", "/openapi.json", 0, openAPI},
		{"GET", "/static/{name}", 0, static},
	}
}

// A request is one that was let in.
type request struct {
	*http.Request
	h     *handler
	who   Who
	token string
	args  url.Values
}

func (q *request) may(r Right) bool { return q.who.May&r == r }

// arg is an argument of the URL, or of the form that was sent.
func (q *request) arg(name string) string { return q.args.Get(name) }

// source is the one that the argument "in" names.
func (q *request) source() (*source, error) {
	name := q.arg("in")
	if s := q.h.sources[name]; s != nil {
		return s, nil
	}
	if name == "" {
		return nil, refuse(http.StatusBadRequest, "which source? Give in=NAME, one of those of the overview")
	}
	return nil, refuse(http.StatusNotFound, "there is no source %.64q", name)
}

// only is the source that the pages of several are narrowed to; "": all.
func (q *request) only() (string, error) {
	if q.arg("in") == "" {
		return "", nil
	}
	s, err := q.source()
	if err != nil {
		return "", err
	}
	return s.name, nil
}

// unanswered is the refusal of a page that only one source could answer.
func (h *handler) unanswered(ctx context.Context, name string, err error) error {
	var told *refusal
	var usage *operate.UsageError
	var none *operate.NoneError
	var unknown *operate.UnknownConsumerError
	switch {
	case errors.As(err, &told):
		return told
	case errors.As(err, &usage):
		return refuse(http.StatusBadRequest, "%s", usage.What)
	case errors.As(err, &none):
		return refuse(http.StatusNotFound, "%s", none.What)
	case errors.As(err, &unknown):
		return refuse(http.StatusNotFound, "%s", unknown.Error())
	}
	return &refusal{http.StatusServiceUnavailable, fmt.Sprintf("%s: %s", name, h.why(ctx, name, err))}
}
