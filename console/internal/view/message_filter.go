package view

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
)

// filters lists the URL arguments that filter kept messages.
func filters() []string {
	return []string{"consumer", "source", "id", "key", "topic", "type", "kind", "fingerprint", "from", "to"}
}

// meantOf returns an error if a filter cannot select any message, such as a filter for dead letters on the
// page of parked messages.
func meantOf(s *operate.Selection) error {
	switch {
	case !s.Dead && (s.Kind+s.Fingerprint != "" || !s.DeadFrom.IsZero() || !s.DeadTo.IsZero()):
		return page.NewRefusal(http.StatusBadRequest,
			"kind, fingerprint, from and to filter dead letters, not parked messages")
	case s.Kind != "" && !slices.Contains(operate.DeadKinds(), s.Kind):
		return page.NewRefusal(http.StatusBadRequest, "kind is one of %s, not %.40q",
			strings.Join(operate.DeadKinds(), ", "), s.Kind)
	}
	return nil
}

// messageSelect returns the selection of messages that the arguments of the request describe.
func messageSelect(q *page.Request, dead bool) (s operate.Selection, err error) {
	s = operate.Selection{Dead: dead, Consumer: q.Arg("consumer"), Source: q.Arg("source"), ID: q.Arg("id"),
		Topic: q.Arg("topic"), Type: q.Arg("type"),
		Fingerprint: q.Arg("fingerprint"), Kind: q.Arg("kind")}
	if q.Arg("key") != "" {
		if s.Key, err = page.ToKey(q.Arg("key")); err != nil {
			return s, err
		}
	}
	if s.DeadFrom, err = moment(q, "from"); err == nil {
		s.DeadTo, err = moment(q, "to")
	}
	if err == nil {
		err = meantOf(&s)
	}
	if err == nil {
		s.After, err = page.Place(q, "after")
	}
	return s, err
}

func moment(q *page.Request, name string) (t time.Time, err error) {
	if text := q.Arg(name); text != "" {
		if t, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return t, page.NewRefusal(http.StatusBadRequest, "%s is a time such as 2026-11-24T10:00:00Z",
				name)
		}
	}
	return t, nil
}

// messageFilters returns the filters of the request as arguments for page.Site.At.
func messageFilters(q *page.Request, more ...string) []string {
	out := []string{"in", q.Arg("in")}
	for _, name := range filters() {
		out = append(out, name, q.Arg(name))
	}
	return append(out, more...)
}
