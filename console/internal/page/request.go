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
	Rows   = 100    // rows
	Scan   = 10_000 // messages that are read for a page
	MostID = 80     // letters of an id in a list
)

// A Site is what all pages of a console have in common.
type Site struct {
	base    string // the path of its URLs
	Sources *set
	log     *slog.Logger // what the console failed at
}

// NewSite is of the pages under base.
func NewSite(base string, sources *set, log *slog.Logger) *Site {
	return &Site{base, sources, log}
}

// Request is r, which was let in with a pass.
func (s *Site) Request(r *http.Request, with pass) *Request { return &Request{r, with, s} }

// At is the URL of a page of this console; query are names and values in turns, and empty values are left
// out.
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

// A Request is one that was let in.
type Request struct {
	*http.Request
	pass
	*Site
}

// Source is the one that the argument "in" names.
func (q *Request) Source() (*Source, error) { return q.Sources.Find(q.Arg("in")) }

// Only is the source that the pages of several are narrowed to; "": all.
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

// One asks one source.
func One[T any](q *Request, s *Source,
	ask func(context.Context, *Source) (T, error)) (T, error) {
	return one(q.Context(), q.Sources, s, ask)
}

// Parts asks the sources that are meant. Neither list is nil.
func Parts[T any](q *Request,
	ask func(ctx context.Context, s *Source) (T, error)) (parts []T, away []Away, err error) {
	only, err := q.Only()
	if err != nil {
		return nil, nil, err
	}
	got, gone := Each(q.Context(), q.Sources, only, ask)
	parts, away = make([]T, len(got)), append([]Away{}, gone...)
	for i := range got {
		parts[i] = got[i].Is
	}
	return parts, away, nil
}

// Place is the place in a list that an argument names; 0: none.
func Place(q *Request, name string) (n int64, err error) {
	if text := q.Arg(name); text != "" {
		if n, err = strconv.ParseInt(text, 10, 64); err != nil || n < 0 {
			return 0, NewRefusal(http.StatusBadRequest, "%s is what the link to the next page says", name)
		}
	}
	return n, nil
}

// Word refuses what is none of the words of a filter: it would choose nothing, and not say so.
func (q *Request) Word(name string) error {
	if is := q.Arg(name); is != "" && !slices.Contains(wordsOf(name), is) {
		return NewRefusal(http.StatusBadRequest, "%s is one of %s, not %.40q", name,
			strings.Join(wordsOf(name), ", "), is)
	}
	return nil
}

// wordsOf are those that a filter takes; nil: any text.
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
