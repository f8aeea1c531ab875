package console

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
)

//go:embed static
var files embed.FS

// A view is what a request is answered with: as JSON, or as a page.
type view interface {
	title() string
	html(p *page)
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

// at is the URL of a page of this console; query are names and values in turns, and empty values are left
// out.
func (h *handler) at(path string, query ...string) string {
	v := url.Values{}
	for i := 0; i+1 < len(query); i += 2 {
		if query[i+1] != "" {
			v.Set(query[i], query[i+1])
		}
	}
	if len(v) == 0 {
		return h.base + path
	}
	return h.base + path + "?" + v.Encode()
}

func (p *page) link(text, path string, query ...string) {
	p.put(`<a href="%s">%s</a>`, p.q.h.at(path, query...), text)
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

// ago is a duration as people say it.
func ago(d time.Duration) string {
	switch {
	case d <= 0:
		return "–"
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return strconv.Itoa(int(d.Hours()/24)) + " days"
}

// render answers with the view, or with the error.
func (h *handler) render(w http.ResponseWriter, q *request, v view, err error) {
	if to, ok := v.(seeOther); ok && err == nil {
		h.redirect(w, q, to)
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
		told := &refusal{http.StatusInternalServerError, "the console failed: its log says why"}
		if !errors.As(err, &told) {
			h.o.Logger.ErrorContext(q.Context(), "console", "path", q.URL.Path, "error", err)
		}
		code, v = told.code, &failure{Status: told.code, Title: http.StatusText(told.code), Detail: told.what}
	}
	if c, ok := v.(interface{ status() int }); ok {
		code = c.status()
	}
	if wantsJSON(q.Request) {
		kind := "application/json"
		if code >= http.StatusBadRequest {
			kind = problemKind
		}
		text, bad := json.Marshal(v)
		if bad != nil {
			h.o.Logger.ErrorContext(q.Context(), "console", "path", q.URL.Path, "error", bad)
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
	_, _ = w.Write(h.framed(q, v)) // who asked is gone if this fails
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

func (seeOther) title() string { return "" }
func (seeOther) html(*page)    {}

func (h *handler) redirect(w http.ResponseWriter, q *request, to seeOther) {
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

func (f *failure) title() string { return f.Title }
func (f *failure) html(p *page)  { p.put(`<p class="note bad" role="alert">%s</p>`, f.Detail) }

// A staticFile is the style or the script.
type staticFile struct {
	kind string
	text []byte
}

func (staticFile) title() string { return "" }
func (staticFile) html(*page)    {}

func static(q *request) (view, error) {
	name := path.Base(q.PathValue("name"))
	text, err := files.ReadFile("static/" + name)
	if err != nil {
		return nil, refuse(http.StatusNotFound, "there is no %.40q", name)
	}
	kinds := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".json": "application/json", ".svg": "image/svg+xml"}
	return staticFile{kinds[path.Ext(name)], text}, nil
}
