package console

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/skald-go/skald/console/internal/guard"
	"github.com/skald-go/skald/console/internal/refusal"
)

//go:embed static
var files embed.FS

// A view is what a request is answered with: as JSON, or as a page.
type view interface {
	Heading() string
	HTML(p *page)
}

// A page is written by hand: html/template would make every program that mounts a console larger by
// megabytes. All that comes from tables goes through put, which escapes it.
type page struct {
	bytes.Buffer
	q *request
}

// put writes markup, with its arguments escaped.
func (p *page) put(markup string, args ...any) {
	for i, a := range args {
		switch a.(type) {
		case int, int64: // as they are, for %d
		default:
			args[i] = html.EscapeString(strings.ToValidUTF8(fmt.Sprint(a), "�"))
		}
	}
	fmt.Fprintf(p, markup, args...)
}

// at is the URL of a page of this console, as site has it.
func (p *page) at(path string, query ...string) string { return p.q.at(path, query...) }

func (p *page) may(r guard.Right) bool { return p.q.May(r) }
func (p *page) arg(name string) string { return p.q.Arg(name) }
func (p *page) flag(name string) bool  { return p.q.Flag(name) }

func (p *page) link(text, path string, query ...string) {
	p.put(`<a href="%s">%s</a>`, p.at(path, query...), text)
}

// when writes a time in UTC; the script adds the viewer's own.
func (p *page) when(t time.Time) {
	if t.IsZero() {
		p.put("–")
		return
	}
	t = t.UTC()
	p.put(`<time datetime="%s">%s</time>`, t.Format("2006-01-02T15:04:05Z"), t.Format("2006-01-02 15:04:05 UTC"))
}

// render answers with the view, or with the error.
func (q *request) render(w http.ResponseWriter, v view, err error) {
	if to, ok := v.(seeOther); ok && err == nil {
		q.redirect(w, to)
		return
	}
	if f, ok := v.(staticFile); ok && err == nil {
		w.Header().Set("Content-Type", f.kind)
		w.Header().Set("Cache-Control", "private, max-age=86400") // its URL has its version
		_, _ = w.Write(f.text)                                    // who asked is gone if this fails
		return
	}
	code := http.StatusOK
	if err != nil {
		told := &refusal.Error{Code: http.StatusInternalServerError, What: "the console failed: its log says why"}
		if !errors.As(err, &told) {
			q.log.ErrorContext(q.Context(), "console", "path", q.URL.Path, "error", err)
		}
		code, v = told.Code, &failure{Status: told.Code, Title: http.StatusText(told.Code), Detail: told.What}
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
			text = []byte(`{"status":500,"title":"Internal Server Error","detail":"the console failed: its log says why"}`)
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(code)
		_, _ = w.Write(append(text, '\n')) // who asked is gone if this fails
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(q.framed(v)) // who asked is gone if this fails
}

const problemKind = "application/problem+json"

func wantsJSON(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html")
}

// A seeOther sends a browser on, after a form.
type seeOther struct {
	Location string `json:"location"`
}

func (seeOther) Heading() string { return "" }
func (seeOther) HTML(*page)      {}

func (q *request) redirect(w http.ResponseWriter, to seeOther) {
	w.Header().Set("Location", to.Location)
	if !wantsJSON(q.Request) {
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_ = json.NewEncoder(w).Encode(to) // who asked is gone if this fails
}

// A failure is a problem as RFC 9457 has it.
type failure struct {
	Status int    `json:"status"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
}

func (f *failure) Heading() string { return f.Title }
func (f *failure) HTML(p *page)    { p.put(`<p class="note bad" role="alert">%s</p>`, f.Detail) }

// A staticFile is the style or the script.
type staticFile struct {
	kind string
	text []byte
}

func (staticFile) Heading() string { return "" }
func (staticFile) HTML(*page)      {}

func static(q *request) (view, error) {
	name := path.Base(q.PathValue("name"))
	text, err := files.ReadFile("static/" + name)
	if err != nil {
		return nil, refusal.New(http.StatusNotFound, "there is no %.40q", name)
	}
	kinds := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".json": "application/json", ".svg": "image/svg+xml"}
	return staticFile{kinds[path.Ext(name)], text}, nil
}
