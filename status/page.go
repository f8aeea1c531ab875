package status

import (
	"bytes"
	_ "embed"
	"fmt"
	"html"
	"strconv"
	"strings"
	"time"

	"github.com/skald-go/skald/operate"
)

//go:embed page.html
var head string

// page is an HTML page. It does not use html/template, which would enlarge each program with a Handler by
// megabytes.
type page struct{ bytes.Buffer }

// put writes markup with escaped arguments.
func (p *page) put(markup string, args ...any) {
	for i, a := range args {
		args[i] = html.EscapeString(fmt.Sprint(a))
	}
	fmt.Fprintf(p, markup, args...)
}

// either writes names, with a separator between them.
func (p *page) either(before string, names []string, separator, after string) {
	p.put("%s", before)
	for i, n := range names {
		if i > 0 {
			p.put("%s", separator)
		}
		p.put("<b>%s</b>", n)
	}
	p.put("%s", after)
}

func moment(at time.Time) string { return at.Format("2006-01-02 15:04:05 MST") }

// pageOf returns the HTML page for the answer a. The argument now is the current time.
func pageOf(a *Answer, now time.Time) []byte {
	p := &page{}
	p.WriteString(head)
	p.put("<title>%s</title>\n<main>\n<h1>%s</h1>\n", a.Key, a.Key)
	if len(a.Sagas) == 0 {
		p.put("<p>No tracker and no engine has a saga with this key.</p>\n")
	}
	for i := range a.Sagas {
		p.saga(&a.Sagas[i], now)
	}
	for i := range a.Held {
		p.held(&a.Held[i])
	}
	for _, s := range a.Silent {
		p.put("<p class=\"warn\">%s did not answer: %s. A message there may block the saga.</p>\n",
			s.Service, s.Why)
	}
	p.put("</main>\n</html>\n")
	return p.Bytes()
}

func (p *page) saga(s *Saga, now time.Time) {
	p.put("<h2>%s: %s</h2>\n", s.Name, s.Word())
	if s.Why != "" {
		p.put("<p>It turned back because %s.</p>\n", s.Why)
	}
	if text := s.Deadline(now); text != "" {
		p.put("<p>Its deadline: %s.</p>\n", text)
	}
	p.steps(s)
	for _, w := range s.Waiting {
		p.put("<p>")
		what := map[string]string{operate.WaitReply: "a reply", operate.WaitTime: "its time",
			operate.WaitChild: "the saga that it started", operate.WaitSignal: "the signal "}[w.Kind]
		if w.Kind == operate.WaitEntities {
			p.put("It waits until other sagas release <b>%s</b>, after %s", w.ForText(), w.After)
		} else {
			p.either("It waits for "+what, w.For, " or ", " after "+w.After)
		}
		if w.Since != nil {
			p.put(", since %s", moment(*w.Since))
		}
		if w.Due != nil {
			p.put("; due %s", moment(*w.Due))
		}
		p.put(".</p>\n")
	}
	if r := s.Retrying; r != nil {
		p.put("<p class=\"warn\"><b>%s</b> %s: %s</p>\n", r.Step, s.Again(now), r.Error)
	}
	for _, c := range s.Commands {
		p.put("<p><code>%s</code></p>\n", c)
	}
	undo := strings.ToUpper(s.UndoWord()[:1]) + s.UndoWord()[1:]
	for _, more := range []struct {
		what, between string
		is            []string
	}{
		{"Not arrived yet, although later events have: ", " or ", s.Missing},
		{"Remaining: ", ", ", s.Remaining},
		{undo + ": ", ", ", s.Undo}, {"Nothing undoes: ", ", ", s.Stays},
	} {
		if len(more.is) > 0 {
			p.put("<p>")
			p.either(more.what, more.is, more.between, ".")
			p.put("</p>\n")
		}
	}
	for i := range s.RequestedUndos {
		p.put("<p>An operator requested at %s that <b>%s</b> is undone.</p>\n", moment(s.RequestedUndos[i].At),
			s.RequestedUndos[i].Step)
	}
	for _, d := range s.Drift {
		p.put("<p class=\"warn\">Drift: %s.</p>\n", strings.TrimRight(d, "."))
	}
	switch {
	case s.TraceURL != "":
		p.put("<p>Trace: <a href=\"%s\" rel=\"noreferrer\">%s</a></p>\n", s.TraceURL, s.Trace)
	case s.Trace != "":
		p.put("<p>Trace: <code>%s</code></p>\n", s.Trace)
	}
}

func (p *page) steps(s *Saga) {
	first := "event"
	if s.Style == operate.Orchestrated {
		first = "step"
	}
	p.put("<table>\n<tr><th scope=\"col\">%s</th><th scope=\"col\">outcome</th><th scope=\"col\">at</th></tr>\n", first)
	for i := range s.Steps {
		step := &s.Steps[i]
		p.put("<tr><td>%s</td><td>%s</td><td>", step.Name, outcome(step))
		if step.At != nil {
			p.put("%s", moment(*step.At))
		}
		p.put("</td></tr>\n")
	}
	p.put("</table>\n")
}

// outcome returns the state of a step in one line.
func outcome(s *operate.StepProgress) string {
	text := s.Outcome
	if s.Stuck {
		text += ", stuck"
	}
	if s.Attempts > 0 {
		text += fmt.Sprintf(", failed %s", times(s.Attempts))
	}
	if s.Error != "" {
		text += ": " + s.Error
	}
	return text
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return strconv.Itoa(n) + " times"
}

func (p *page) held(h *Held) {
	p.put("<div class=\"warn\">\n<h2>Held up at %s</h2>\n<p>%s <code>%s</code> is %s at the consumer %s since %s", h.Service, h.Type, h.ID, h.State, h.Consumer, moment(h.Since))
	if h.Kind != "" {
		p.put(" (%s)", h.Kind)
	}
	if h.Attempts > 0 {
		p.put(", after %s attempts", strconv.Itoa(h.Attempts))
	}
	if h.LastError != "" {
		p.put(": %s", h.LastError)
	}
	p.put("</p>\n<p><code>%s</code></p>\n</div>\n", h.Command)
}
