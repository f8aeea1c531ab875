package console

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skald-go/skald/internal/nearby"
)

// A refusal is an error that is told to whoever asked.
type refusal struct {
	code int
	what string
}

func (r *refusal) Error() string { return r.what }

func refuse(code int, what string, args ...any) error {
	return &refusal{code, fmt.Sprintf(what, args...)}
}

// secured answers with what keeps a browser from doing more than it should.
func (h *handler) secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "+
			"form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("X-Frame-Options", "DENY")
		head.Set("Referrer-Policy", "same-origin") // with no-referrer the Origin of a form is null
		head.Set("Cross-Origin-Opener-Policy", "same-origin")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		head.Set("Cache-Control", "no-store")
		head.Set("Vary", "Accept")
		next.ServeHTTP(w, r)
	})
}

// routed is the pages, and an error as theirs where there is none.
func (h *handler) routed(w http.ResponseWriter, r *http.Request) {
	lost, pattern := h.mux.Handler(r)
	if pattern != "" {
		h.mux.ServeHTTP(w, r)
		return
	}
	told := &tells{head: http.Header{}}
	lost.ServeHTTP(told, r)
	err := refuse(http.StatusNotFound, "there is no such page")
	if told.code == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", told.head.Get("Allow"))
		err = refuse(told.code, "this page is not for %.16s, but for %s", r.Method, told.head.Get("Allow"))
	}
	h.guarded(route{answer: func(*request) (view, error) { return nil, err }}).ServeHTTP(w, r)
}

// A tells keeps what a handler would answer, without its body.
type tells struct {
	head http.Header
	code int
}

func (t *tells) Header() http.Header         { return t.head }
func (t *tells) WriteHeader(code int)        { t.code = code }
func (t *tells) Write(b []byte) (int, error) { return len(b), nil }

// guarded lets a request in that may do what the route needs.
func (h *handler) guarded(to route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := &request{Request: r, h: h}
		var v view
		err := h.admit(q, to)
		if err == nil {
			v, err = to.answer(q)
		}
		h.render(w, q, v, err)
	})
}

func (h *handler) admit(q *request, to route) (err error) {
	if q.who, err = h.whoIs(q.Request); err != nil {
		return err
	}
	q.token = h.token(q.who.Name, time.Now())
	need := to.needs | View
	if q.who.May&need != need {
		return refuse(http.StatusForbidden, "%s lacks a right for this: %s", q.who.Name, words(need&^q.who.May))
	}
	if need&^View != 0 && strings.TrimSpace(q.who.Name) == "" {
		return refuse(http.StatusForbidden, "who acts needs a name, which is noted: Options.Who gave none")
	}
	if q.args, err = url.ParseQuery(q.URL.RawQuery); err != nil { // what is left out would choose more
		return refuse(http.StatusBadRequest, "the arguments of the URL cannot be read: write %%3B for a semicolon and %%25 for a percent sign")
	}
	if to.method != http.MethodPost {
		return nil // a body is nobody's argument
	}
	if err := sameOrigin(q.Request); err != nil {
		return err
	}
	if err := q.readForm(); err != nil {
		return err
	}
	given := q.PostForm.Get("token")
	if given == "" {
		given = q.Header.Get("X-Skald-Token")
	}
	if !h.tokenOK(q.who.Name, given) {
		return refuse(http.StatusForbidden, "the form is from before the console started, or not the console's: go back, reload the page, and try again")
	}
	return nil
}

// readForm adds what the form says to the arguments, before those of the URL.
func (q *request) readForm() error {
	const mostForm, form = 64 << 10, "application/x-www-form-urlencoded"
	if kind, _, _ := mime.ParseMediaType(q.Header.Get("Content-Type")); kind != form && (kind != "" || q.ContentLength != 0) {
		return refuse(http.StatusUnsupportedMediaType, "a POST has a body of the type %s, not %.64q", form, kind)
	}
	q.Body = http.MaxBytesReader(nil, q.Body, mostForm)
	if err := q.ParseForm(); err != nil {
		return refuse(http.StatusBadRequest, "the form cannot be read, or has more than %d bytes", mostForm)
	}
	for name, values := range q.PostForm {
		q.args[name] = append(slices.Clone(values), q.args[name]...)
	}
	return nil
}

func words(r Right) string {
	var out []string
	for _, w := range []struct {
		is   Right
		word string
	}{{View, "view"}, {Act, "act"}, {Payloads, "payloads"}} {
		if r&w.is != 0 {
			out = append(out, w.word)
		}
	}
	return strings.Join(out, ", ")
}

// whoIs asks the team's login; without one, whoever is at this machine.
func (h *handler) whoIs(r *http.Request) (Who, error) {
	if h.o.Who == nil {
		if !nearby.Is(r) {
			return Who{}, refuse(http.StatusForbidden, "without console.Options.Who only requests from this machine, to this machine, are answered")
		}
		return Who{Name: h.o.Local, May: View | Act | Payloads}, nil
	}
	who, err := h.o.Who(r)
	if own := new(refusal); err != nil && !errors.As(err, &own) {
		h.o.Logger.InfoContext(r.Context(), "console: refused", "error", err)
		err = refuse(http.StatusForbidden, "you are not let in")
	}
	return who, err
}

// sameOrigin holds that a form of this console sent the request: a browser says where it comes from.
func sameOrigin(r *http.Request) error {
	foreign := refuse(http.StatusForbidden, "the request comes from another site")
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin": // no page can set it; a proxy may have changed the host that Origin is compared with
		return nil
	case "", "none":
	default:
		return foreign
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil // no browser: those send it with each POST
	}
	at, err := url.Parse(origin)
	if err != nil || at.Host == "" || !strings.EqualFold(at.Host, r.Host) {
		return foreign
	}
	return nil
}

const tokenFor = 12 * time.Hour

// token is what a form has to bring along: it tells the name that the form was made for, and is good for a
// day.
func (h *handler) token(name string, at time.Time) string {
	mac := hmac.New(sha256.New, h.secret)
	// a hash takes all
	_, _ = mac.Write([]byte(strconv.FormatInt(at.Unix()/int64(tokenFor.Seconds()), 10) + "\x00" + name))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func (h *handler) tokenOK(name, given string) bool {
	now := time.Now()
	return hmac.Equal([]byte(given), []byte(h.token(name, now))) || hmac.Equal([]byte(given), []byte(h.token(name, now.Add(-tokenFor))))
}
