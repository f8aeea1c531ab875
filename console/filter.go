package console

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/skald-go/skald/operate"
)

// filterNames are the arguments of a URL that choose among kept messages: the URL holds every filter.
func filterNames() []string {
	return []string{"consumer", "source", "id", "key", "topic", "type", "kind", "fingerprint", "from", "to"}
}

// meantOf refuses a filter that would choose nothing, or more than it says.
func meantOf(s *operate.Selection) error {
	switch {
	case !s.Dead && (s.Kind+s.Fingerprint != "" || !s.DeadFrom.IsZero() || !s.DeadTo.IsZero()):
		return refuse(http.StatusBadRequest, "kind, fingerprint, from and to choose among dead letters, not among parked messages")
	case s.Kind != "" && !slices.Contains(operate.DeadKinds(), s.Kind):
		return refuse(http.StatusBadRequest, "kind is one of %s, not %.40q", strings.Join(operate.DeadKinds(), ", "), s.Kind)
	}
	return nil
}

const keyCode = "base64:"

// selection is what the arguments choose.
func selection(q *request, dead bool) (s operate.Selection, err error) {
	s = operate.Selection{Dead: dead, Consumer: q.arg("consumer"), Source: q.arg("source"), ID: q.arg("id"), Topic: q.arg("topic"), Type: q.arg("type"),
		Fingerprint: q.arg("fingerprint"), Kind: q.arg("kind")}
	if q.arg("key") != "" {
		if s.Key, err = keyOf(q.arg("key")); err != nil {
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
		s.After, err = place(q)
	}
	return s, err
}

func keyOf(text string) ([]byte, error) {
	code, coded := strings.CutPrefix(text, keyCode)
	if !coded {
		return []byte(text), nil
	}
	key, err := base64.StdEncoding.DecodeString(code)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "the key is text, or base64: and its bytes in base64")
	}
	return append([]byte{}, key...), nil // an empty key is a key
}

// keyText is a key as keyOf takes it. Nil has none.
func keyText(key []byte) string {
	text := string(key)
	strange := strings.HasPrefix(text, keyCode) || text == "" ||
		strings.ContainsFunc(text, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) })
	switch {
	case key == nil:
		return ""
	case strange:
		return keyCode + base64.StdEncoding.EncodeToString(key)
	}
	return text
}

func moment(q *request, name string) (t time.Time, err error) {
	if text := q.arg(name); text != "" {
		if t, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return t, refuse(http.StatusBadRequest, "%s is a time such as 2026-11-24T10:00:00Z", name)
		}
	}
	return t, nil
}

func place(q *request) (int64, error) {
	return number64(q, "after")
}

// number64 is the place in a list that an argument names; 0: none.
func number64(q *request, name string) (n int64, err error) {
	if text := q.arg(name); text != "" {
		if n, err = strconv.ParseInt(text, 10, 64); err != nil || n < 0 {
			return 0, refuse(http.StatusBadRequest, "%s is what the link to the next page says", name)
		}
	}
	return n, nil
}

// filters are the arguments of a selection, as at takes them.
func filters(q *request, more ...string) []string {
	out := []string{"in", q.arg("in")}
	for _, name := range filterNames() {
		out = append(out, name, q.arg(name))
	}
	return append(out, more...)
}

// filterForm lets a reader change the filters of a list. Each source is offered.
func (p *page) filterForm(path string, names ...string) {
	p.put("<form class=\"filter\" method=\"get\" action=\"%s\" role=\"search\">\n", p.q.h.at(path))
	p.put("<label>source <select name=\"in\"><option value=\"\">all</option>")
	for _, name := range p.q.h.names {
		chosen := ""
		if name == p.q.arg("in") {
			chosen = " selected"
		}
		p.WriteString("<option" + chosen)
		p.put(" value=\"%s\">%s</option>", name, name)
	}
	p.put("</select></label>\n")
	for _, name := range names {
		switch words := wordsOf(name); {
		case words != nil:
			p.choice(name, words)
		case isFlag(name):
			checked := ""
			if p.q.flag(name) {
				checked = " checked"
			}
			p.put("<label>%s <input type=\"checkbox\" name=\"%s\" value=\"1\"%s></label>\n", name, name, checked)
		default:
			p.put("<label>%s <input name=\"%s\" value=\"%s\"></label>\n", name, name, p.q.arg(name))
		}
	}
	p.put("<button>Filter</button>")
	if p.q.URL.RawQuery != "" {
		p.put(" <a href=\"%s\">all</a>", p.q.h.at(path))
	}
	p.put("\n</form>\n")
}

// choice offers the words that a filter knows.
func (p *page) choice(name string, words []string) {
	p.put("<label>%s <select name=\"%s\"><option value=\"\">any</option>", name, name)
	for _, word := range words {
		chosen := ""
		if word == p.q.arg(name) {
			chosen = " selected"
		}
		p.put("<option value=\"%s\"%s>%s</option>", word, chosen, word)
	}
	p.put("</select></label>\n")
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

func isFlag(name string) bool {
	return slices.Contains([]string{"stuck", "failing", "paused", "overdue"}, name)
}

// flag tells whether a filter that is on or off is on.
func (q *request) flag(name string) bool {
	is := q.arg(name)
	return is != "" && is != "0" && is != "false"
}

// word refuses what is none of the words of a filter: it would choose nothing, and not say so.
func (q *request) word(name string) error {
	if is := q.arg(name); is != "" && !slices.Contains(wordsOf(name), is) {
		return refuse(http.StatusBadRequest, "%s is one of %s, not %.40q", name, strings.Join(wordsOf(name), ", "), is)
	}
	return nil
}
