package console

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/skald-go/skald/console/internal/guard"
	"github.com/skald-go/skald/console/internal/refusal"
	"github.com/skald-go/skald/console/internal/source"
	"github.com/skald-go/skald/operate"
)

const (
	pageOf   = 100    // rows
	mostScan = 10_000 // messages that are read for a page
	mostID   = 80     // letters of an id in a list
)

// A site is what all pages of a console have in common.
type site struct {
	base    string // the path of its URLs
	sources *source.Set
	log     *slog.Logger // what the console failed at
}

// at is the URL of a page of this console; query are names and values in turns, and empty values are left
// out.
func (s *site) at(path string, query ...string) string {
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

// A request is one that was let in.
type request struct {
	*http.Request
	guard.Pass
	*site
}

// source is the one that the argument "in" names.
func (q *request) source() (*source.Source, error) { return q.sources.Find(q.Arg("in")) }

// only is the source that the pages of several are narrowed to; "": all.
func (q *request) only() (string, error) {
	if q.Arg("in") == "" {
		return "", nil
	}
	s, err := q.source()
	if err != nil {
		return "", err
	}
	return s.Name, nil
}

// partsOf asks the sources that are meant. Neither list is nil.
func partsOf[T any](q *request, ask func(ctx context.Context, s *source.Source) (T, error)) (parts []T, away []source.Away, err error) {
	only, err := q.only()
	if err != nil {
		return nil, nil, err
	}
	got, gone := source.Each(q.Context(), q.sources, only, ask)
	parts, away = make([]T, len(got)), append([]source.Away{}, gone...)
	for i := range got {
		parts[i] = got[i].Is
	}
	return parts, away, nil
}

func place(q *request) (int64, error) {
	return number64(q, "after")
}

// number64 is the place in a list that an argument names; 0: none.
func number64(q *request, name string) (n int64, err error) {
	if text := q.Arg(name); text != "" {
		if n, err = strconv.ParseInt(text, 10, 64); err != nil || n < 0 {
			return 0, refusal.New(http.StatusBadRequest, "%s is what the link to the next page says", name)
		}
	}
	return n, nil
}

// word refuses what is none of the words of a filter: it would choose nothing, and not say so.
func (q *request) word(name string) error {
	if is := q.Arg(name); is != "" && !slices.Contains(wordsOf(name), is) {
		return refusal.New(http.StatusBadRequest, "%s is one of %s, not %.40q", name, strings.Join(wordsOf(name), ", "), is)
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
