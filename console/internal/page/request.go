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
	Rows   = 100    // the maximum number of rows of a list
	Scan   = 10_000 // the maximum number of messages that are read for a page
	MostID = 80     // the maximum number of characters of an ID in a list
)

// Site has the data that all pages of a console need.
type Site struct {
	base    string // path prefix of all URLs
	Sources *set
	log     *slog.Logger // for errors of the console
}

// NewSite returns the site for the pages under the path base.
func NewSite(base string, sources *set, log *slog.Logger) *Site {
	return &Site{base, sources, log}
}

// Request returns the Request for r. The argument p is the result of Guard.Admit.
func (s *Site) Request(r *http.Request, p pass) *Request { return &Request{r, p, s} }

// At returns the URL of a page of this console. query has names and values in turn. At omits empty values.
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

// Request is an HTTP request to a page, with its user.
type Request struct {
	*http.Request
	pass
	*Site
}

// Source returns the source that the argument "in" names.
func (q *Request) Source() (*Source, error) { return q.Sources.Find(q.Arg("in")) }

// Only returns the name of the source that the argument "in" names, or "" for all sources.
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
	return queryOne(q.Context(), q.Sources, s, ask)
}

// Parts queries the sources that the argument "in" selects. The result failed has the sources that did not
// answer. Neither list is nil.
func Parts[T any](q *Request,
	ask func(ctx context.Context, s *Source) (T, error)) (parts []T, failed []Unreachable, err error) {
	only, err := q.Only()
	if err != nil {
		return nil, nil, err
	}
	got, gone := Each(q.Context(), q.Sources, only, ask)
	parts, failed = make([]T, len(got)), append([]Unreachable{}, gone...)
	for i := range got {
		parts[i] = got[i].Is
	}
	return parts, failed, nil
}

// Place returns the position in a list from an argument, or 0 without that argument.
func Place(q *Request, name string) (n int64, err error) {
	if text := q.Arg(name); text != "" {
		if n, err = strconv.ParseInt(text, 10, 64); err != nil || n < 0 {
			return 0, NewRefusal(http.StatusBadRequest, "%s must come from the link to the next page", name)
		}
	}
	return n, nil
}

// Word returns an error if a filter has an unknown value. Otherwise the page would show an empty list.
func (q *Request) Word(name string) error {
	if is := q.Arg(name); is != "" && !slices.Contains(wordsOf(name), is) {
		return NewRefusal(http.StatusBadRequest, "%s is one of %s, not %.40q", name,
			strings.Join(wordsOf(name), ", "), is)
	}
	return nil
}

// wordsOf returns the values of a filter, or nil if the filter accepts any text.
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
