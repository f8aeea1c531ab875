// Package page is the framework for the pages of a console. It controls access, queries the databases, and
// renders each view as JSON or as HTML.
package page

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"strings"
	"time"

	"github.com/skald-go/skald/internal/shortlog"
)

// View is the content of a page. It can be encoded as JSON, and can write itself as HTML.
type View interface {
	Heading() string
	HTML(p *Page)
}

// Page is an HTML page in progress. Write all text from tables with Put, which escapes the text. Page does
// not use html/template, because that would enlarge every program with a console by megabytes.
type Page struct {
	bytes.Buffer
	*Request // the request that the page answers
}

// Put writes markup, a format for Printf, with escaped arguments. It makes control characters in visible text
// readable. It does not change them in attribute values, because a form sends these values back.
func (p *Page) Put(markup string, args ...any) {
	before := strings.Split(strings.ReplaceAll(markup, "%%", ""), "%")
	inTag := false
	for i, a := range args {
		if at := strings.LastIndexAny(before[min(i, len(before)-1)], "<>"); at >= 0 {
			inTag = before[i][at] == '<'
		}
		switch a.(type) {
		case int, int64: // unchanged, for %d
		default:
			text := strings.ToValidUTF8(fmt.Sprint(a), "�")
			if !inTag {
				text = shortlog.Visible(text, true)
			}
			args[i] = html.EscapeString(text)
		}
	}
	fmt.Fprintf(p, markup, args...)
}

// Link writes a link to a page of this console.
func (p *Page) Link(text, path string, query ...string) {
	p.Put(`<a href="%s">%s</a>`, p.At(path, query...), text)
}

// When writes a time in UTC. The script of the page adds the time in the zone of the browser.
func (p *Page) When(t time.Time) {
	if t.IsZero() {
		p.Put("–")
		return
	}
	t = t.UTC()
	p.Put(`<time datetime="%s">%s</time>`, t.Format("2006-01-02T15:04:05Z"),
		t.Format("2006-01-02 15:04:05 UTC"))
}

// Moment writes a time in UTC with milliseconds.
func (p *Page) Moment(t time.Time) {
	t = t.UTC()
	p.Put(`<time datetime="%s">%s</time>`, t.Format("2006-01-02T15:04:05.000Z"),
		t.Format("2006-01-02 15:04:05.000 UTC"))
}

// Render sends the view, or the error if err is not nil.
func (q *Request) Render(w http.ResponseWriter, v View, err error) {
	if to, ok := v.(seeOther); ok && err == nil {
		q.redirect(w, to)
		return
	}
	if f, ok := v.(staticFile); ok && err == nil {
		w.Header().Set("Content-Type", f.kind)
		w.Header().Set("Cache-Control", "private, max-age=86400") // the URL contains its version
		_, _ = w.Write(f.text)                                    // an error means that the client has gone
		return
	}
	code := http.StatusOK
	if err != nil {
		refusal := &refusalError{Code: http.StatusInternalServerError,
			What: "the console failed: see its log"}
		if !errors.As(err, &refusal) {
			q.log.ErrorContext(q.Context(), "console", "path", q.URL.Path, "error", err)
		}
		code, v = refusal.Code, &Failure{Status: refusal.Code, Title: http.StatusText(refusal.Code),
			Detail: refusal.What}
	}
	if c, ok := v.(interface{ Code() int }); ok {
		code = c.Code()
	}
	if wantsJSON(q.Request) {
		kind := "application/json"
		if code >= http.StatusBadRequest {
			kind = problemKind
		}
		text, bad := json.Marshal(v)
		if bad != nil {
			q.log.ErrorContext(q.Context(), "console", "path", q.URL.Path, "error", bad)
			code, kind = http.StatusInternalServerError, problemKind
			text = []byte(`{"status":500,"title":"Internal Server Error","detail":"the console failed: see its log"}`)
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(code)
		_, _ = w.Write(append(text, '\n')) // an error means that the client has gone
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(q.framed(v)) // an error means that the client has gone
}

const problemKind = "application/problem+json"

func wantsJSON(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html")
}

// seeOther is a view that redirects a browser after a form.
type seeOther struct {
	Location string `json:"location"`
}

// See returns a view that redirects the sender of a form to a page of this console.
func (q *Request) See(path string, query ...string) View { return seeOther{q.At(path, query...)} }

func (seeOther) Heading() string { return "" }
func (seeOther) HTML(*Page)      {}

func (q *Request) redirect(w http.ResponseWriter, to seeOther) {
	w.Header().Set("Location", to.Location)
	if !wantsJSON(q.Request) {
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_ = json.NewEncoder(w).Encode(to) // an error means that the client has gone
}

// Failure is a view of an error, as problem details of RFC 9457.
type Failure struct {
	Status int    `json:"status"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
}

func (f *Failure) Heading() string { return f.Title }
func (f *Failure) HTML(p *Page)    { p.Put(`<p class="note bad" role="alert">%s</p>`, f.Detail) }
