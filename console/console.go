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
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald"
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

// A Who is somebody who asks.
type Who struct {
	Name string // noted with what they do; required for Act and Payloads
	May  Right
}

// A Right is what somebody may do.
type Right uint8

// Rights. None includes another one, and without View nothing is answered.
const (
	View Right = 1 << iota // pages, without payloads and values of headers
	Act                    // the verbs
	// payloads and values of headers, as Mask and MaskHeader leave them; each look is noted in skald_audit
	Payloads
)

// A Console is the handler that New makes.
type Console struct {
	pages http.Handler
	h     *handler
}

// ServeHTTP answers a request.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.pages.ServeHTTP(w, r) }

// Wait waits until no bulk action is in hand any more, and how each ended is noted, or until ctx ends. Call
// it once Options.Actions has ended, before the databases are closed.
func (c *Console) Wait(ctx context.Context) error { return c.h.wait(ctx) }

// A handler is a console.
type handler struct {
	base    string
	names   []string // of the sources, sorted
	sources map[string]*source
	o       Options
	secret  []byte // of the tokens of forms
	mux     http.ServeMux
	jobs    jobs
}

// New is a console under the path base, "/ops" or "", over the databases of services by name. Mount it
// without http.StripPrefix. Whatever is wrong with its arguments is each page's answer.
func New(base string, sources map[string]Source, o *Options) *Console {
	h := &handler{base: strings.TrimRight(base, "/"), sources: map[string]*source{}, secret: []byte(rand.Text())}
	if o != nil {
		h.o = *o
	}
	h.o.Local = cmp.Or(h.o.Local, "somebody on this machine")
	h.o.Deadline = cmp.Or(h.o.Deadline, 2*time.Second)
	if h.o.Logger == nil {
		h.o.Logger = slog.Default()
	}
	if h.o.Actions == nil {
		h.o.Actions = context.Background()
	}
	h.names = slices.Sorted(maps.Keys(sources))
	if err := h.check(sources); err != nil {
		return &Console{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "console.New: "+err.Error(), http.StatusInternalServerError)
		}), h}
	}
	for name, s := range sources {
		h.sources[name] = newSource(name, s)
	}
	for _, r := range routes() {
		h.mux.Handle(r.method+" "+h.base+r.path, h.guarded(r))
	}
	return &Console{h.secured(http.HandlerFunc(h.routed)), h}
}

func (h *handler) check(sources map[string]Source) error {
	if h.base != "" && (path.Clean(h.base) != h.base || !regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)+$`).MatchString(h.base)) {
		return fmt.Errorf("the base is a path such as /ops, or empty: not %q", h.base)
	}
	if len(sources) == 0 {
		return errors.New("give at least one source")
	}
	for name, s := range sources {
		if !regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`).MatchString(name) || s.db == nil {
			return fmt.Errorf("a source has a name of letters, digits, dots and dashes, and is made by console.Of: not %q", name)
		}
	}
	return nil
}
