// This file controls access: it identifies the user, checks the rights that a route needs, and refuses forms
// that another site sent.

package page

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skald-go/skald/internal/endpoint"
)

// Guard controls access to a console.
type Guard struct {
	who    func(*http.Request) (Who, error)
	local  string // user name for requests from this machine, if who is nil
	log    *slog.Logger
	secret []byte // key of form tokens
}

// NewGuard returns a guard that calls the function identify to identify users. If identify is nil, the
// guard admits only requests from this machine, for a user with the name local.
func NewGuard(identify func(*http.Request) (Who, error), local string, log *slog.Logger) *Guard {
	return &Guard{identify, local, log, []byte(rand.Text())}
}

// pass is the result of Guard.Admit: the user, a token and the arguments.
type pass struct {
	Who   Who
	Token string     // for forms
	args  url.Values // the arguments of the URL and of the form
}

// May reports whether the user has a right.
func (p *pass) May(r Right) bool { return p.Who.May&r == r }

// Arg returns an argument of the form or the URL.
func (p *pass) Arg(name string) string { return p.args.Get(name) }

// Flag reports whether a boolean argument is set.
func (p *pass) Flag(name string) bool {
	is := p.Arg(name)
	return is != "" && is != "0" && is != "false"
}

// Admit checks that the user of a request has View and these rights. If form is true, it also reads and
// checks the form. With an error it still returns a pass, to render the page with the error.
func (g *Guard) Admit(r *http.Request, rights Right, form bool) (p pass, err error) {
	if p.Who, err = g.whoIs(r); err != nil {
		return p, err
	}
	p.Token = g.token(p.Who.Name, time.Now())
	need := rights | GuardView
	if !p.May(need) {
		return p, NewRefusal(http.StatusForbidden, "%s lacks a right for this: %s", p.Who.Name,
			need&^p.Who.May)
	}
	if need&^GuardView != 0 && strings.TrimSpace(p.Who.Name) == "" {
		return p, NewRefusal(http.StatusForbidden,
			"an action needs a user name for the audit: Options.User returned none")
	}
	if p.args, err = url.ParseQuery(r.URL.RawQuery); err != nil { // an ignored filter would select more
		return p, NewRefusal(http.StatusBadRequest,
			"the arguments of the URL are invalid: write %%3B for a semicolon and %%25 for a percent sign")
	}
	if !form {
		return p, nil // ignore the body of a GET
	}
	if err := sameOrigin(r); err != nil {
		return p, err
	}
	if err := p.readForm(r); err != nil {
		return p, err
	}
	given := r.PostForm.Get("token")
	if given == "" {
		given = r.Header.Get("X-Skald-Token")
	}
	if !g.tokenOK(p.Who.Name, given) {
		return p, NewRefusal(http.StatusForbidden,
			"the form is older than this process, or from another site: go back, reload the page and try again")
	}
	return p, nil
}

// readForm adds the values of the form to the arguments. They take precedence over those of the URL.
func (p *pass) readForm(r *http.Request) error {
	const mostForm, form = 64 << 10, "application/x-www-form-urlencoded"
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != form &&
		(kind != "" || r.ContentLength != 0) {
		return NewRefusal(http.StatusUnsupportedMediaType, "a POST has a body of the type %s, not %.64q",
			form, kind)
	}
	r.Body = http.MaxBytesReader(nil, r.Body, mostForm)
	if err := r.ParseForm(); err != nil {
		return NewRefusal(http.StatusBadRequest, "the form is invalid or larger than %d bytes",
			mostForm)
	}
	for name, values := range r.PostForm {
		p.args[name] = append(slices.Clone(values), p.args[name]...)
	}
	return nil
}

// whoIs returns the user of a request. Without Guard.who it checks that the request is from this machine.
func (g *Guard) whoIs(r *http.Request) (Who, error) {
	if g.who == nil {
		if !endpoint.FromThisMachine(r) {
			return Who{}, NewRefusal(http.StatusForbidden,
				"without console.Options.User only requests from this machine, to this machine, are answered")
		}
		return Who{g.local, GuardView | Act | Payloads}, nil
	}
	who, err := g.who(r)
	if own := new(refusalError); err != nil && !errors.As(err, &own) {
		g.log.InfoContext(r.Context(), "console: refused", "error", err)
		err = NewRefusal(http.StatusForbidden, "access denied")
	}
	return who, err
}

// sameOrigin returns an error if a browser sent the request from a page of another site.
func sameOrigin(r *http.Request) error {
	foreign := NewRefusal(http.StatusForbidden, "the request comes from another site")
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin": // scripts cannot set this header, so no check of Host, which a proxy may change
		return nil
	case "", "none":
	default:
		return foreign
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil // not a browser: browsers send Origin with each POST
	}
	at, err := url.Parse(origin)
	if err != nil || at.Host == "" || !strings.EqualFold(at.Host, r.Host) {
		return foreign
	}
	return nil
}

const tokenFor = 12 * time.Hour

// token returns a token for forms of a user. It is valid for 12 to 24 hours.
func (g *Guard) token(name string, at time.Time) string {
	mac := hmac.New(sha256.New, g.secret)
	// Write of a hash never returns an error.
	_, _ = mac.Write([]byte(strconv.FormatInt(at.Unix()/int64(tokenFor.Seconds()), 10) + "\x00" + name))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func (g *Guard) tokenOK(name, given string) bool {
	now := time.Now()
	return hmac.Equal([]byte(given), []byte(g.token(name, now))) ||
		hmac.Equal([]byte(given), []byte(g.token(name, now.Add(-tokenFor))))
}
