package view

import (
	"strings"
	"time"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/internal/saga/draw"
	graph "github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

func (v *storyPage) Heading() string { return page.Cut(v.Asked, 80) }
func (*storyPage) Live()             {}

func (v *storyPage) HTML(p *page.Page) {
	p.Away(v.Away)
	if !v.known() {
		p.Put("<p class=\"note\">Nothing found in the sources that answered. The search covers the newest %s rows of each outbox, published or not, by id, key and correlation. A mark has no key: <code>skald inbox show</code> finds it by the id of its message.</p>\n", page.Number(store.WrittenScan))
	}
	for i := range v.Parts {
		part := &v.Parts[i]
		if part.More {
			p.Put("<p class=\"note warn\">%s has so many parked and dead messages that only the first ones were searched for the id or correlation. This limit does not affect those of the key.</p>\n", part.Source)
		}
		if part.Cut {
			p.Put("<p class=\"note warn\">%s has more than is shown: the first %d of a key, and those of the key or correlation among the first %s in quarantine.</p>\n",
				part.Source, page.Rows, page.Number(mostQuarantined))
		}
		if part.Lookups > mostLookups {
			p.Put("<p class=\"note warn\">%s: parked and dead messages were read for %d of %s pairs of a consumer and a key. Other messages of the key may be missing here.</p>\n",
				part.Source, mostLookups, page.Number(int64(part.Lookups)))
		}
		part.unpublished(p)
		part.writeBlockers(p)
	}
	for i := range v.Parts {
		for j := range v.Parts[i].Sagas {
			v.Parts[i].saga(p, &v.Parts[i].Sagas[j])
		}
	}
	if len(v.Line) > 0 {
		v.timeline(p)
	}
}

// writeBlockers writes the messages that block the sagas, each with the verb that unblocks it.
func (part *storyPart) writeBlockers(p *page.Page) {
	for i := range part.Kept {
		m := &part.Kept[i]
		if m.Waiting || m.DeadAt == nil && m.LastError == "" {
			continue
		}
		held := &part.held[i]
		verb := "release"
		switch {
		case held.Dead != nil && held.Dead.Kind == failure.KindRejected:
			verb = "drop"
		case held.Dead != nil:
			verb = "redrive"
		}
		p.Put("<div class=\"note bad\"><p><b>Held up at %s</b>: ", part.Source)
		p.Link(m.Type, "/message", "in", part.Source, "consumer", m.Consumer, "source", m.Source, "id", m.ID)
		p.Put(" at the consumer %s is %s: %s</p>\n<p class=\"verbs\">", m.Consumer, m.State,
			page.Cut(page.FirstLine(m.LastError), 300))
		if p.May(page.Act) {
			p.Put(`<a class="button" href="%s">%s …</a> `, p.At("/act", "verb", verb, "in", part.Source,
				"consumer", m.Consumer, "source", m.Source, "id", m.ID, "seen", stateHash(held)),
				page.Title(verb))
		}
		sel := selectionOf(held)
		p.Put("<code>%s</code></p></div>\n",
			page.Command(part.from.At, verb, &sel, held.Call != nil && held.Call.Outcome == ""))
	}
	if len(part.Quarantined) > 0 {
		p.Put("<section class=\"card\"><h2>In quarantine at %s</h2>\n", part.Source)
		quarantineTable(p, part.Quarantined)
		p.Put("</section>\n")
	}
}

func (part *storyPart) saga(p *page.Page, s *operate.SagaProgress) {
	p.Put("<section class=\"card\">\n<h2>%s: %s", s.Name, s.State)
	for _, f := range []struct {
		is   bool
		word string
	}{{s.Overdue, "overdue"}, {s.Stuck, "stuck"}} {
		if f.is {
			p.Put(", <span class=\"late\">%s</span>", f.word)
		}
	}
	who := map[string]string{operate.Orchestrated: "an engine", operate.Choreographed: "the tracker"}[s.Style]
	p.Put("</h2>\n<p class=\"dim\">reported by %s of %s, changed ", who, part.Source)
	p.When(s.Changed)
	if s.Style == operate.Orchestrated {
		p.Put(" · ")
		p.Link("the saga", "/saga", "in", part.Source, "name", s.Name, "key", s.Key)
	}
	p.Put("</p>\n")
	if s.Style == operate.Choreographed {
		p.Put("<div class=\"picture\">")
		p.WriteString(picture(s)) // package draw escapes all texts
		p.Put("</div>\n")
	}
	if text := s.Deadline(time.Now()); text != "" {
		p.Put("<p>Its deadline: %s</p>\n", text)
	}
	for i := range s.Waiting {
		waitsLine(p, &s.Waiting[i])
	}
	switch r := s.Retrying; {
	case r == nil:
	case s.Stuck:
		p.Put("<p class=\"note bad\">Step <b>%s</b> is stuck, and waits for an operator: %s</p>\n", r.Step,
			page.Cut(page.FirstLine(r.Error), 300))
	default:
		p.Put("<p class=\"note warn\">Step <b>%s</b> fails, attempt %d comes next: %s</p>\n", r.Step,
			r.Attempt, page.Cut(page.FirstLine(r.Error), 300))
	}
	part.writeUnblocking(p, s)
	undo := strings.ToUpper(s.UndoWord()[:1]) + s.UndoWord()[1:]
	for _, more := range []struct {
		what, between string
		is            []string
	}{
		{"Missing, although a later event has arrived", " or ", s.Missing},
		{"What remains", ", ", s.Remaining},
		{undo, ", ", s.Undo}, {"Nothing undoes", ", ", s.Stays},
	} {
		if len(more.is) > 0 {
			p.Put("<p>%s: <b>%s</b></p>\n", more.what, strings.Join(more.is, more.between))
		}
	}
	for _, a := range s.RequestedUndos {
		p.Put("<p>An operator requested the undo of <b>%s</b>; it is not reported yet.</p>\n", a.Step)
	}
	for _, d := range s.Drift {
		p.Put("<p class=\"note warn\">Drift: %s</p>\n", d)
	}
	switch asks := p.May(page.Act) && s.Style == operate.Choreographed && part.from.Compensate != nil &&
		len(s.Undo) > 0; {
	case asks && len(s.Refused) > 0:
		p.Put("<p class=\"note\">It cannot be compensated from here: %s</p>\n", strings.Join(s.Refused, "; "))
	case asks:
		p.Put(`<p class="verbs"><a class="button" href="%s">Compensate …</a></p>`+"\n",
			p.At("/act", "verb", "compensate", "in", part.Source, "key", s.Key, "flow", s.Name))
	}
	p.Put("</section>\n")
}

// writeUnblocking writes the verbs that make an orchestrated saga continue.
func (part *storyPart) writeUnblocking(p *page.Page, s *operate.SagaProgress) {
	var verbs []operate.SagaVerb
	if s.Stuck {
		verbs = append(verbs, operate.RetrySaga)
	}
	if s.Paused {
		verbs = append(verbs, operate.ResumeSaga)
	}
	for i, command := range s.Commands {
		p.Put("<p class=\"verbs\">")
		if p.May(page.Act) && i < len(verbs) {
			verb := page.OfSaga + string(verbs[i])
			p.Put(`<a class="button" href="%s">%s …</a> `, p.At("/act", "verb", verb, "in", part.Source,
				"name", s.Name, "key", s.Key), page.Title(verb))
		}
		p.Put("<code>%s</code></p>\n", command)
	}
}

// waitsLine writes one event, reply or time that a saga waits for.
func waitsLine(p *page.Page, w *operate.Wait) {
	what := w.ForText()
	switch {
	case w.Kind == operate.WaitEntities:
		what = "entities that other sagas hold: " + what
	case what == "":
		what = map[string]string{operate.WaitReply: "a reply", operate.WaitTime: "its time",
			operate.WaitChild: "its saga"}[w.Kind]
	}
	p.Put("<p>It waits for <b>%s</b> after %s, since ", what, w.After)
	if w.Since != nil {
		p.When(*w.Since)
	}
	if w.Due != nil {
		p.Put("; due ")
		p.When(*w.Due)
	}
	p.Put("</p>\n")
}

const mostDrawn = 50 // limits the steps of a picture

// picture draws a choreographed saga: the past events in order, then the events that the saga waits for, and
// then possible later events.
func picture(s *operate.SagaProgress) string {
	g, marks := graph.Graph{Name: s.Name}, map[string]draw.Mark{}
	add := func(name string, mark draw.Mark, after ...string) bool {
		if _, is := marks[name]; is || len(g.Steps) >= mostDrawn {
			return false
		}
		marks[name] = mark
		g.Steps = append(g.Steps, graph.Step{Name: name, Kind: "event", After: after})
		return true
	}
	var last []string
	for i := range s.Steps {
		step := &s.Steps[i]
		name, at := step.Name, ""
		if _, taken := marks[name]; taken {
			name += " of " + step.Topic
		}
		if step.At != nil {
			at = step.At.UTC().Format("15:04:05")
		}
		if add(name, draw.Mark{Text: at, Class: draw.Done}, last...) {
			last = []string{name}
		}
	}
	for _, n := range s.Missing {
		add(n, draw.Mark{Text: "missing", Class: draw.Failed})
	}
	class, word := draw.Active, "awaited"
	if s.Overdue {
		class, word = draw.Stuck, "overdue"
	}
	next := []string{}
	for _, w := range s.Waiting {
		var after []string
		if _, drawn := marks[w.After]; drawn {
			after = []string{w.After}
		}
		for _, n := range w.For {
			if add(n, draw.Mark{Text: word, Class: class}, after...) {
				next = append(next, n)
			}
		}
	}
	for _, n := range s.Remaining {
		if add(n, draw.Mark{Text: "may come"}, next...) {
			next = []string{n}
		}
	}
	return draw.SVG(g, marks) + draw.TallSVG(g, marks)
}

func (v *storyPage) timeline(p *page.Page) {
	p.Put("<section class=\"card story\">\n<h2>What happened</h2>\n")
	p.Table("What happened, in all sources")
	p.Put("<tr><th scope=\"col\">at</th><th scope=\"col\" class=\"n\">after</th>" +
		"<th scope=\"col\">took</th><th scope=\"col\">source</th><th scope=\"col\">where</th>" +
		"<th scope=\"col\">what</th></tr>\n")
	first, last := v.Line[0].At, v.Line[len(v.Line)-1].At
	for i := range v.Line {
		m := &v.Line[i]
		p.Put("<tr class=\"%s\"><td>", m.Grade)
		p.Moment(m.At)
		p.Put("</td><td class=\"n\">%s</td><td>", page.Exactly(m.At.Sub(first)))
		bar(p, m, first, last)
		p.Put("</td><td>%s</td><td>%s</td><td class=\"why\">%s</td></tr>\n", m.Source, m.Where, m.What)
	}
	p.Put("</table></div>\n<p class=\"dim\">A bar begins at the previous entry of the same source and place. The clocks of services differ.</p>\n</section>\n")
}

// bar draws the duration of the event e. The width of the drawing is the time from start to end.
func bar(p *page.Page, e *event, start, end time.Time) {
	since := e.At
	if e.Since != nil {
		since = *e.Since
	}
	place := func(at time.Time) float64 {
		if !end.After(start) {
			return 0
		}
		return max(0, min(1, at.Sub(start).Seconds()/end.Sub(start).Seconds()))
	}
	const wide = 1000 // in units of the SVG
	from, to := int(wide*place(since)), int(wide*place(e.At))
	const least = 12 // the width of the smallest visible bar
	from = min(from, wide-least)
	p.Put("<svg class=\"bar\" viewBox=\"0 0 %d 10\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"%s\"><rect x=\"%d\" width=\"%d\" height=\"10\"/></svg>",
		wide, page.Exactly(e.At.Sub(since)), from, max(least, to-from))
	if e.At.After(since) {
		p.Put("<span class=\"dim\">%s</span>", page.Exactly(e.At.Sub(since)))
	}
}
