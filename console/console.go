// Package console is an http.Handler with web pages for operators. The pages show the messages, consumers
// and sagas of several services, and apply the operations of package operate. The console has no tables, and
// sends no query between requests.
//
//	mux.Handle("/ops/", console.New("/ops", map[string]console.Source{
//		"orders":   console.NewSource(ordersDB),
//		"payments": console.NewSource(paymentsDB),
//	}, &console.Options{User: user}))
//
// Every page works without JavaScript, and returns JSON to clients that accept application/json: see
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

// Options configure a console. The zero value works, but only on this machine.
type Options struct {
	// User returns the user of a request, and the user's rights, from your own login. If User returns an
	// error, the console refuses the request. If User is nil, the console answers only direct requests from
	// this machine, and gives them every right.
	User func(*http.Request) (User, error)
	// Local is the user name of requests from this machine if User is nil. Default "somebody on this
	// machine".
	Local string
	// Mask, if not nil, changes a payload before the console shows it.
	Mask func(m skald.Message, body []byte) []byte
	// MaskHeader changes a header value before the console shows it. If MaskHeader is nil, the console shows
	// values unchanged, or hides them if Mask is set.
	MaskHeader func(m skald.Message, name string, value []byte) []byte
	// Links adds links to the page of a message. The map has the URLs by link text. A URL may contain
	// {traceparent}, {trace}, {id}, {key}, {type} and {consumer}.
	Links map[string]string
	// Deadline limits the time that a page waits for each source. Default 2 s.
	Deadline time.Duration
	// Actions stops all bulk actions when it ends: see Console.Wait. If Actions is nil, bulk actions run
	// until they finish.
	Actions context.Context
	Logger  *slog.Logger // logs why a source did not answer; default slog.Default()
}

// Console is the handler that New returns.
type Console struct {
	pages http.Handler
	h     *handler
}

// ServeHTTP handles a request.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.pages.ServeHTTP(w, r) }

// Wait blocks until every bulk action has ended and its result is stored, or until ctx ends. Call Wait after
// Options.Actions has ended and before you close the databases.
func (c *Console) Wait(ctx context.Context) error { return c.h.jobs.Wait(ctx) }

// handler is the implementation of a console.
type handler struct {
	site     *page.Site
	guard    *page.Guard
	mux      http.ServeMux
	jobs     *view.Jobs
	messages view.Pages
	sagas    view.SagaPages
}

// New returns a console under the path base, such as "/ops" or "". sources has the databases of services by
// the names of the services. Mount the console without http.StripPrefix. If an argument is invalid, every
// page shows the error.
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
		guard:    page.NewGuard(o.guardUser(), o.Local, o.Logger),
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
				"a source has a name of letters, digits, dots and dashes, and comes from console.NewSource: not %q",
				name)
		}
	}
	return nil
}
