// This file lets requests into a console: it asks who they are of, holds what that somebody may do
// against what they need, and refuses forms that are not the console's own.

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

// A Guard lets requests in.
type Guard struct {
	who    func(*http.Request) (Who, error)
	local  string // the name of whoever is at this machine, where nobody is asked
	log    *slog.Logger
	secret []byte // of the tokens of forms
}

// NewGuard is a guard that asks who; nil: it lets requests from this machine in, as local.
func NewGuard(who func(*http.Request) (Who, error), local string, log *slog.Logger) *Guard {
	return &Guard{who, local, log, []byte(rand.Text())}
}

// A pass is what a request brings along that was let in.
type pass struct {
	Who   Who
	Token string     // of its forms
	args  url.Values // of the URL, and of the form that was sent
}

// May tells whether the sender has a right.
func (p *pass) May(r Right) bool { return p.Who.May&r == r }

// Arg is an argument of the URL, or of the form that was sent.
func (p *pass) Arg(name string) string { return p.args.Get(name) }

// Flag tells whether an argument that is on or off is on.
func (p *pass) Flag(name string) bool {
	is := p.Arg(name)
	return is != "" && is != "0" && is != "false"
}

// Admit lets a request in whose sender may do what it needs, beside View. One that is refused has a pass,
// too, for its page. A form is read.
func (g *Guard) Admit(r *http.Request, needs Right, form bool) (p pass, err error) {
	if p.Who, err = g.whoIs(r); err != nil {
		return p, err
	}
	p.Token = g.token(p.Who.Name, time.Now())
	need := needs | GuardView
	if !p.May(need) {
		return p, NewRefusal(http.StatusForbidden, "%s lacks a right for this: %s", p.Who.Name,
			need&^p.Who.May)
	}
	if need&^GuardView != 0 && strings.TrimSpace(p.Who.Name) == "" {
		return p, NewRefusal(http.StatusForbidden,
			"who acts needs a name, which is noted: Options.Who gave none")
	}
	if p.args, err = url.ParseQuery(r.URL.RawQuery); err != nil { // what is left out would choose more
		return p, NewRefusal(http.StatusBadRequest,
			"the arguments of the URL cannot be read: write %%3B for a semicolon and %%25 for a percent sign")
	}
	if !form {
		return p, nil // a body is nobody's argument
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
			"the form is from before the console started, or not the console's: go back, reload the page, and try again")
	}
	return p, nil
}

// readForm adds what the form says to the arguments, before those of the URL.
func (p *pass) readForm(r *http.Request) error {
	const mostForm, form = 64 << 10, "application/x-www-form-urlencoded"
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != form &&
		(kind != "" || r.ContentLength != 0) {
		return NewRefusal(http.StatusUnsupportedMediaType, "a POST has a body of the type %s, not %.64q",
			form, kind)
	}
	r.Body = http.MaxBytesReader(nil, r.Body, mostForm)
	if err := r.ParseForm(); err != nil {
		return NewRefusal(http.StatusBadRequest, "the form cannot be read, or has more than %d bytes",
			mostForm)
	}
	for name, values := range r.PostForm {
		p.args[name] = append(slices.Clone(values), p.args[name]...)
	}
	return nil
}

// whoIs asks the team's login; without one, whoever is at this machine.
func (g *Guard) whoIs(r *http.Request) (Who, error) {
	if g.who == nil {
		if !endpoint.FromThisMachine(r) {
			return Who{}, NewRefusal(http.StatusForbidden,
				"without console.Options.Who only requests from this machine, to this machine, are answered")
		}
		return Who{g.local, GuardView | Act | Payloads}, nil
	}
	who, err := g.who(r)
	if own := new(refusalError); err != nil && !errors.As(err, &own) {
		g.log.InfoContext(r.Context(), "console: refused", "error", err)
		err = NewRefusal(http.StatusForbidden, "you are not let in")
	}
	return who, err
}

// sameOrigin holds that a form of this console sent the request: a browser says where it comes from.
func sameOrigin(r *http.Request) error {
	foreign := NewRefusal(http.StatusForbidden, "the request comes from another site")
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
func (g *Guard) token(name string, at time.Time) string {
	mac := hmac.New(sha256.New, g.secret)
	// a hash takes all
	_, _ = mac.Write([]byte(strconv.FormatInt(at.Unix()/int64(tokenFor.Seconds()), 10) + "\x00" + name))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func (g *Guard) tokenOK(name, given string) bool {
	now := time.Now()
	return hmac.Equal([]byte(given), []byte(g.token(name, now))) ||
		hmac.Equal([]byte(given), []byte(g.token(name, now.Add(-tokenFor))))
}
