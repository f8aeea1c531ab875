package status

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skald-go/skald/internal/endpoint"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// Options has the options of a Handler. The zero value works.
type Options struct {
	// Service is the name of this service in answers. Default "this service".
	Service string
	// Services has the URLs at which the Handlers of other services are mounted, by name. The handler also
	// queries these. Default: none.
	Services map[string]string
	// Databases has databases of other services that this process can open, by name. The handler reads them
	// without HTTP. Default: none.
	Databases map[string]Database
	// Deadline limits the time of an answer. The handler first reads this service's database, for at most
	// half of that time. Then it queries the others in parallel. Default 2 s.
	Deadline time.Duration
	// Client sends the requests to other services. It must add the credentials that their Auth requires.
	// Default: a client without credentials.
	Client *http.Client
	// Auth wraps the handler to authenticate requests. If Auth is nil, the handler accepts only requests from
	// this machine that no proxy has marked as forwarded. Set Auth behind a proxy, because some proxies do
	// not mark requests.
	Auth func(http.Handler) http.Handler
	// Store is the flag that selects this service's database in printed commands, such as "--store
	// @orders.url". It must not contain a password. Default: none, for shells with SKALD_STORE.
	Store string
	// TraceURL is the URL of a trace, with {trace} in the place of its ID, such as
	// "https://traces.example/{trace}". Default: the answer has only the ID.
	TraceURL string
	Logger   *slog.Logger // receives the errors of services that did not respond. Default slog.Default()
}

// Database is the database of another service.
type Database struct {
	DB    store.Lister
	Store string // as Options.Store
}

// handler answers requests from one database and other services.
type handler struct {
	db     store.Lister
	o      Options
	others map[string]*url.URL
	mux    http.ServeMux
}

const (
	maxAnswer = 1 << 20
	maxKey    = 1 << 10
	maxKeys   = 64
)

// Handler returns a handler for db and the services of o. Mount it under a prefix with http.StripPrefix:
//
//	GET /{key}       the state of the sagas of the key: JSON, or a page if the client accepts HTML
//	GET /{key}/held  a short answer from this service only, for the Handlers of other services
//
// You can also mount it at a route with {key}: "GET /subscriptions/{key}/status" then answers like GET
// /{key}. Other services need the prefix. The answer is for operators. For customers use Customer.
//
// The status is 200 if the key is known, and 404 if no service knows it. The status is 503 if nothing was
// found and a service did not respond. The handler needs the database rights of a reader.
func Handler(db store.Lister, o *Options) (http.Handler, error) {
	h := &handler{db: db, others: map[string]*url.URL{}}
	if o != nil {
		h.o = *o
	}
	if h.o.Service == "" {
		h.o.Service = "this service"
	}
	if h.o.Deadline <= 0 {
		h.o.Deadline = 2 * time.Second
	}
	if h.o.Client == nil {
		h.o.Client = &http.Client{}
	}
	if h.o.Auth == nil {
		h.o.Auth = loopback
	}
	if h.o.Logger == nil {
		h.o.Logger = slog.Default()
	}
	for name, at := range h.o.Services {
		u, err := url.Parse(at)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" ||
			u.Fragment != "" || name == h.o.Service {
			return nil, fmt.Errorf("status: the URL of %q is invalid, or it is the name of this service: give the http or https URL under which the other service's handler is mounted", name)
		}
		h.others[name] = u
	}
	for name := range h.o.Databases {
		if h.others[name] != nil || name == h.o.Service {
			return nil,
				fmt.Errorf("status: %q is given twice: give each service once, by its URL or its database",
					name)
		}
	}
	if err := CheckTraceURL(h.o.TraceURL); err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	h.mux.HandleFunc("GET /{key}", h.answer)
	h.mux.HandleFunc("GET /{key}/held", h.held)
	return h.o.Auth(http.HandlerFunc(h.route)), nil
}

// route answers requests at the caller's own route with {key}, such as /subscriptions/{key}/status, and
// requests under a prefix.
func (h *handler) route(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.PathValue("key") == "":
		h.mux.ServeHTTP(w, r)
	case checkMethod(w, r): // the caller's route may accept other methods, too
		h.answer(w, r)
	}
}

// checkMethod reports whether r is a GET or a HEAD. For other methods it answers 405.
func checkMethod(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	http.Error(w, "use GET", http.StatusMethodNotAllowed)
	return false
}

// loopback accepts only requests from this machine.
func loopback(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !endpoint.FromThisMachine(r) {
			http.Error(w,
				"only requests from this machine are accepted: set status.Options.Auth to accept others",
				http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

const keyIs = "a key is text in UTF-8 without NUL, of at most 1024 bytes, and is not . or ..: for another key run skald status KEY"

// textual reports whether a tracker and a URL can contain this key. JSON would replace bytes that are not
// UTF-8, and dots would change the path.
func textual(key string) bool {
	dots := key == "." || key == ".."
	return len(key) <= maxKey && !dots && utf8.ValidString(key) && !strings.ContainsRune(key, 0)
}

func (h *handler) answer(w http.ResponseWriter, r *http.Request) {
	key := r.PathValue("key")
	if !textual(key) {
		http.Error(w, keyIs, http.StatusBadRequest)
		return
	}
	ctx, stop := context.WithTimeout(r.Context(), h.o.Deadline)
	defer stop()
	a := h.ask(ctx, key)
	code := http.StatusOK
	switch {
	case a.Known():
	case len(a.Silent) > 0:
		code = http.StatusServiceUnavailable
	default:
		code = http.StatusNotFound
	}
	head := w.Header()
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Vary", "Accept")
	if !acceptsHTML(r.Header) {
		h.json(w, code, &a)
		return
	}
	head.Set("Content-Type", "text/html; charset=utf-8")
	head.Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	w.WriteHeader(code)
	_, _ = w.Write(pageOf(&a, time.Now())) // an error means that the client has disconnected
}

// acceptsHTML reports whether the client names HTML in Accept, as browsers do.
func acceptsHTML(h http.Header) bool {
	for _, one := range strings.Split(strings.Join(h.Values("Accept"), ","), ",") {
		kind, params, err := mime.ParseMediaType(one)
		if err == nil && kind == "text/html" {
			q, err := strconv.ParseFloat(cmp.Or(params["q"], "1"), 64)
			return err == nil && q > 0
		}
	}
	return false
}

func (*handler) json(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // an error means that the client has disconnected
}

// ask reads this service's database. Then it queries all others in parallel, with the keys of the saga's
// messages.
func (h *handler) ask(ctx context.Context, key string) Answer {
	const broken = "its database gave no answer"
	a := empty(key)
	// Limit the time, so that the others can be queried if this database hangs.
	own, enough := context.WithTimeout(ctx, h.o.Deadline/2)
	sagas, err := operate.ReadSagaProgress(own, h.db, key, h.o.Store)
	if err != nil {
		why := broken
		if own.Err() != nil && ctx.Err() == nil {
			why = fmt.Sprintf("no answer within %v", h.o.Deadline/2)
		}
		h.silent(ctx, &a, h.o.Service, why, err)
	}
	enough()
	a.addSagas(h.o.Service, sagas)
	keys := keysOf(key, sagas)
	type reply struct {
		service, why string
		part         part
		err          error
	}
	replies := make(chan reply, len(h.others)+len(h.o.Databases)+1)
	go func() {
		held, err := operate.BlockingMessages(ctx, h.db, keys, h.o.Store)
		replies <- reply{h.o.Service, broken, part{Held: held}, err}
	}()
	for name, at := range h.others {
		go func() {
			part, err := h.fetch(ctx, at, key, keys)
			replies <- reply{name, fmt.Sprintf("no usable answer from %s",
				at.Redacted()), part, err}
		}()
	}
	for name, d := range h.o.Databases {
		go func() {
			part, err := h.look(ctx, d, key, keys)
			replies <- reply{name, broken, part, err}
		}()
	}
	for range cap(replies) {
		got := <-replies
		a.addSagas(got.service, got.part.Sagas)
		a.addHeld(got.service, got.part.Held)
		if got.err != nil {
			h.silent(ctx, &a, got.service, got.why, got.err)
		}
	}
	a.Link(h.o.TraceURL)
	slices.SortStableFunc(a.Sagas, func(a, b Saga) int {
		return cmp.Or(a.Started.Compare(b.Started),
			strings.Compare(a.Service+"\x00"+a.Name, b.Service+"\x00"+b.Name))
	})
	slices.SortFunc(a.Held, func(a, b Held) int {
		return strings.Compare(a.Service+"\x00"+a.Consumer+"\x00"+a.ID, b.Service+"\x00"+b.Consumer+
			"\x00"+b.ID)
	})
	slices.SortFunc(a.Silent, func(a, b Silent) int { return strings.Compare(a.Service, b.Service) })
	return a
}

func (h *handler) silent(ctx context.Context, a *Answer, service, why string, err error) {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		why = fmt.Sprintf("no answer within %v", h.o.Deadline)
	}
	if !slices.ContainsFunc(a.Silent, func(s Silent) bool { return s.Service == service }) {
		a.Silent = append(a.Silent, Silent{service, why})
	}
	h.o.Logger.WarnContext(ctx, "status: no answer", "service", service, "error", err)
}

// part is the answer of one service.
type part struct {
	Key   string                    `json:"key"`
	Sagas []operate.SagaProgress    `json:"sagas"`
	Held  []operate.BlockingMessage `json:"held"`
}

func (h *handler) held(w http.ResponseWriter, r *http.Request) {
	if !textual(r.PathValue("key")) {
		http.Error(w, keyIs, http.StatusBadRequest)
		return
	}
	keys := [][]byte{}
	for _, text := range r.URL.Query()["key"] {
		key, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil || len(key) > maxKey || len(keys) == maxKeys {
			http.Error(w,
				fmt.Sprintf(
					"give key at most %d times, in base64url without padding, with at most %d bytes",
					maxKeys, maxKey), http.StatusBadRequest)
			return
		}
		keys = append(keys, key)
	}
	ctx, stop := context.WithTimeout(r.Context(), h.o.Deadline)
	defer stop()
	out, err := h.look(ctx, Database{h.db, h.o.Store}, r.PathValue("key"), keys)
	if err != nil {
		h.o.Logger.WarnContext(ctx, "status: no answer", "service", h.o.Service, "error", err)
		http.Error(w, "the database gave no answer", http.StatusServiceUnavailable)
		return
	}
	h.json(w, http.StatusOK, out)
}

// look reads one database.
func (*handler) look(ctx context.Context, d Database, key string, keys [][]byte) (part, error) {
	out := part{Key: key, Sagas: []operate.SagaProgress{}, Held: []operate.BlockingMessage{}}
	sagas, err := operate.ReadSagaProgress(ctx, d.DB, key, d.Store)
	if err != nil {
		return out, err
	}
	held, err := operate.BlockingMessages(ctx, d.DB, keys, d.Store)
	out.Sagas, out.Held = append(out.Sagas, sagas...), append(out.Held, held...)
	return out, err
}
