// Package console shows what the tables of several services say, and runs the verbs of package operate on
// them. It is an http.Handler that a service mounts; it has no tables of its own, and asks no database while
// nobody looks.
//
//	mux.Handle("/ops/", console.New("/ops", map[string]console.Source{
//		"orders":   console.Of(ordersDB),
//		"payments": console.Of(paymentsDB),
//	}, &console.Options{Who: who}))
//
// Each page can be read without script, and answers JSON where the client accepts application/json: see
// openapi.json.
package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/console/internal/view"
)

// Options of a console. The zero value works, on this machine alone.
type Options struct {
	// Who says who asks, and what they may: the team's own login. Its error refuses the request. Nil:
	// requests from this machine alone are answered, and no proxy's; whoever sends them may do everything.
	Who func(*http.Request) (Who, error)
	// Local is the name of whoever is at this machine, where Who is nil. Default "somebody on this machine".
	Local string
	// Mask changes the payload that is shown to somebody who may see payloads. Nil: it is shown as it is.
	Mask func(m skald.Message, body []byte) []byte
	// MaskHeader changes the value of a header that is shown to somebody who may see payloads. Nil: it is
	// shown as it is, and with a Mask not at all.
	MaskHeader func(m skald.Message, name string, value []byte) []byte
	// Links are shown beside a message, by their text. A URL may have {traceparent}, {trace}, {id}, {key},
	// {type} and {consumer}.
	Links map[string]string
	// Deadline is how long a source may take to answer a page. Default 2 s.
	Deadline time.Duration
	// Actions bounds what bulk actions this process runs: they end with it, see Console.Wait. Nil: nothing
	// does.
	Actions context.Context
	Logger  *slog.Logger // why a source did not answer. Default slog.Default()
}

// Console is the handler that New makes.
type Console struct {
	pages http.Handler
	h     *handler
}

// ServeHTTP answers a request.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.pages.ServeHTTP(w, r) }

// Wait waits until no bulk action is in hand any more, and how each ended is noted, or until ctx ends. Call
// it once Options.Actions has ended, before the databases are closed.
func (c *Console) Wait(ctx context.Context) error { return c.h.jobs.Wait(ctx) }

// A handler is a console.
type handler struct {
	site     *page.Site
	guard    *page.Guard
	mux      http.ServeMux
	jobs     *view.Jobs
	messages view.Pages
	sagas    view.SagaPages
}

// New returns a console under the path base ("/ops" or "") for the databases of services by name. Mount it
// without http.StripPrefix. With invalid arguments every page returns the error.
func New(base string, sources map[string]Source, o *Options) *Console {
	base = strings.TrimRight(base, "/")
	h := newHandler(base, sources, o)
	if err := check(base, sources); err != nil {
		return &Console{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "console.New: "+err.Error(), http.StatusInternalServerError)
		}), h}
	}
	for _, r := range h.routes() {
		h.mux.Handle(r.method+" "+base+r.path, h.guarded(r))
	}
	return &Console{page.Secured(http.HandlerFunc(h.routed)), h}
}

func newHandler(base string, sources map[string]Source, given *Options) *handler {
	var o Options
	if given != nil {
		o = *given
	}
	o.Local = cmp.Or(o.Local, "somebody on this machine")
	o.Deadline = cmp.Or(o.Deadline, 2*time.Second)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Actions == nil {
		o.Actions = context.Background()
	}
	databases := map[string]page.Database{}
	for name, s := range sources {
		databases[name] = s.is
	}
	shows := page.Mask{Body: o.Mask, Header: o.MaskHeader}
	return &handler{
		site:     page.NewSite(base, page.NewSource(databases, o.Deadline, o.Logger), o.Logger),
		guard:    page.NewGuard(o.who(), o.Local, o.Logger),
		jobs:     view.NewRun(o.Actions, o.Logger),
		messages: view.Pages{Mask: shows, Links: o.Links},
		sagas:    view.SagaPages{Mask: shows},
	}
}

func check(base string, sources map[string]Source) error {
	if base != "" && (path.Clean(base) != base ||
		!regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)+$`).MatchString(base)) {
		return fmt.Errorf("the base is a path such as /ops, or empty: not %q", base)
	}
	if len(sources) == 0 {
		return errors.New("give at least one source")
	}
	for name, s := range sources {
		if !regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`).MatchString(name) || s.is.DB == nil {
			return fmt.Errorf(
				"a source has a name of letters, digits, dots and dashes, and is made by console.Of: not %q",
				name)
		}
	}
	return nil
}
