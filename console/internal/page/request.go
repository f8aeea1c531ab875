package page

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/skald-go/skald/operate"
)

const (
	Rows   = 100    // rows of a list
	Scan   = 10_000 // messages scanned for a page
	MostID = 80     // characters of an id in a list
)

// Site has the common data of all pages.
type Site struct {
	base    string // path prefix of all URLs
	Sources *set
	log     *slog.Logger // for errors of the console
}

// NewSite returns the site of the pages under base.
func NewSite(base string, sources *set, log *slog.Logger) *Site {
	return &Site{base, sources, log}
}

// Request returns an admitted request.
func (s *Site) Request(r *http.Request, with pass) *Request { return &Request{r, with, s} }

// At returns the URL of a page of this console. query alternates names and values; empty values are
// omitted.
func (s *Site) At(path string, query ...string) string {
	v := url.Values{}
	for i := 0; i+1 < len(query); i += 2 {
		if query[i+1] != "" {
			v.Set(query[i], query[i+1])
		}
	}
	if len(v) == 0 {
		return s.base + path
	}
	return s.base + path + "?" + v.Encode()
}

// Request is an admitted request.
type Request struct {
	*http.Request
	pass
	*Site
}

// Source returns the source that the argument "in" names.
func (q *Request) Source() (*Source, error) { return q.Sources.Find(q.Arg("in")) }

// Only returns the name of the source in the argument "in"; "" for all.
func (q *Request) Only() (string, error) {
	if q.Arg("in") == "" {
		return "", nil
	}
	s, err := q.Source()
	if err != nil {
		return "", err
	}
	return s.Name, nil
}

// One queries one source.
func One[T any](q *Request, s *Source,
	ask func(context.Context, *Source) (T, error)) (T, error) {
	return one(q.Context(), q.Sources, s, ask)
}

// Parts queries the selected sources. Neither list is nil.
func Parts[T any](q *Request,
	ask func(ctx context.Context, s *Source) (T, error)) (parts []T, away []Unreachable, err error) {
	only, err := q.Only()
	if err != nil {
		return nil, nil, err
	}
	got, gone := Each(q.Context(), q.Sources, only, ask)
	parts, away = make([]T, len(got)), append([]Unreachable{}, gone...)
	for i := range got {
		parts[i] = got[i].Is
	}
	return parts, away, nil
}

// Place returns the position in a list that an argument gives; 0 if absent.
func Place(q *Request, name string) (n int64, err error) {
	if text := q.Arg(name); text != "" {
		if n, err = strconv.ParseInt(text, 10, 64); err != nil || n < 0 {
			return 0, NewRefusal(http.StatusBadRequest, "%s must come from the link to the next page", name)
		}
	}
	return n, nil
}

// Word returns an error if a filter has an unknown value, because it would silently select nothing.
func (q *Request) Word(name string) error {
	if is := q.Arg(name); is != "" && !slices.Contains(wordsOf(name), is) {
		return NewRefusal(http.StatusBadRequest, "%s is one of %s, not %.40q", name,
			strings.Join(wordsOf(name), ", "), is)
	}
	return nil
}

// wordsOf returns the values of a filter; nil if it takes any text.
func wordsOf(name string) []string {
	switch name {
	case "status", "state":
		return operate.SagaStatuses()
	case "kind":
		return operate.DeadKinds()
	case "why":
		return []string{"conflict", "too-old"}
	}
	return nil
}
