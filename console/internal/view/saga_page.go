package view

import (
	"maps"
	"slices"

	"github.com/skald-go/skald/console/internal/page"
	graph "github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/operate"
)

func (*sagaPage) Live()             {}
func (v *sagaPage) Heading() string { return "Saga " + v.Name + " " + page.Cut(v.Key, 80) }

func (v *sagaPage) HTML(p *page.Page) {
	p.Put("<p class=\"dim\">%s · ", v.Source)
	p.Link("the story of its key", "/story", "q", v.Key)
	p.Put("</p>\n<section class=\"card\">\n<h2>%s", v.Status)
	if v.Stuck {
		p.Put(", <span class=\"late\">stuck</span>")
	}
	if v.Paused {
		p.Put(", paused")
	}
	p.Put("</h2>\n")
	if v.picture != "" {
		p.Put("<div class=\"picture\">")
		p.WriteString(v.picture) // package draw has escaped all texts
		p.Put("</div>\n")
	}
	for _, line := range v.Explained {
		p.Put("<p>%s</p>\n", line)
	}
	p.Put("<dl class=\"rows\">\n")
	p.Row("id", v.ID)
	p.Row("definition", v.Hash)
	p.Row("parent", v.Parent)
	p.Row("correlation", v.Correlation)
	p.Row("in hand at", v.Session)
	p.Put("<div><dt>started</dt><dd>")
	p.When(v.Started)
	p.Put("</dd></div>\n<div><dt>changed</dt><dd>")
	p.When(v.Changed)
	p.Put("</dd></div>\n</dl>\n")
	if v.Ended == nil {
		p.Put("<p class=\"verbs\">")
		pause := operate.PauseSaga
		if v.Paused {
			pause = operate.ResumeSaga
		}
		v.button(p, pause, "", "")
		if !v.forward {
			v.button(p, operate.CancelSaga, "", "")
		}
		p.Put("</p>\n")
	}
	p.Put("</section>\n")
	v.runs(p)
	v.failures(p)
	v.data(p)
}

func (v *sagaPage) button(p *page.Page, verb operate.SagaVerb, step, occurrence string) {
	if p.May(page.Act) {
		p.Put(`<a class="button" href="%s">%s …</a> `, p.At("/act", "verb", page.OfSaga+string(verb),
			"in", v.Source, "name", v.Name, "key", v.Key, "step", step, "occurrence", occurrence),
			page.Title(page.OfSaga+string(verb)))
	}
}

func (v *sagaPage) runs(p *page.Page) {
	p.Put("<section class=\"card\"><h2>Steps</h2>\n")
	p.Table("Steps")
	p.Put("<tr><th scope=\"col\">step</th><th scope=\"col\">phase</th><th scope=\"col\" class=\"n\">failed</th><th scope=\"col\">due</th>" +
		"<th scope=\"col\">error</th><th scope=\"col\"><span class=\"out\">verbs</span></th></tr>\n")
	for i := range v.Runs {
		r := &v.Runs[i]
		p.Put("<tr><td>%s %s</td><td>%s", r.Step, r.Occurrence, r.Phase)
		if r.Stuck {
			p.Put(" <b class=\"late\">stuck</b>")
		}
		p.Put("</td><td class=\"n\">%d</td><td>", r.Attempts)
		if r.Due != nil {
			p.When(*r.Due)
		}
		p.Put("</td><td class=\"why\">%s</td><td class=\"verbs\">", page.Cut(page.FirstLine(r.Error), 300))
		if r.Stuck || r.Attempts > 0 {
			for _, verb := range []operate.SagaVerb{operate.RetrySaga, operate.CompleteSaga,
				operate.SkipSaga} {
				v.button(p, verb, r.Step, r.Occurrence)
			}
		}
		p.Put("</td></tr>\n")
	}
	p.Put("</table></div></section>\n")
}

// failures writes the last failed attempts of the steps, if there are any.
func (v *sagaPage) failures(p *page.Page) {
	if !slices.ContainsFunc(v.Runs, func(r operate.SagaRun) bool { return len(r.Failures) > 0 }) {
		return
	}
	p.Put("<section class=\"card\"><h2>Failed attempts</h2>\n")
	p.Table("Failed attempts")
	p.Put("<tr><th scope=\"col\">step</th><th scope=\"col\">failed attempt</th><th scope=\"col\">error</th></tr>\n")
	for i := range v.Runs {
		r := &v.Runs[i]
		for j := range r.Failures {
			f, undo := &r.Failures[j], ""
			if f.Undo {
				undo = "undo of "
			}
			p.Put("<tr><td>%s%s %s</td><td>", undo, r.Step, r.Occurrence)
			p.When(f.At)
			p.Put("</td><td class=\"why\">%s</td></tr>\n", page.Cut(page.FirstLine(f.Error), 300))
		}
	}
	p.Put("</table></div>\n<p class=\"dim\">The last %d of each step, and at most %s.</p>\n</section>\n",
		graph.MaxFailures, page.Bytes(graph.MaxFailureBytes))
}

func (v *sagaPage) data(p *page.Page) {
	p.Put("<section class=\"card\"><h2>Input and outputs</h2>\n")
	switch {
	case v.Shown != nil:
		p.Put("<p>Input</p>\n<pre>%s</pre>\n", v.Shown.Input)
		for _, step := range slices.Sorted(maps.Keys(v.Shown.Outputs)) {
			p.Put("<p>Output of %s</p>\n<pre>%s</pre>\n", step, v.Shown.Outputs[step])
		}
	case !p.May(page.Payloads):
		p.Put("<p class=\"dim\">Hidden: you lack the right to see payloads.</p>\n")
	default:
		p.Put("<form method=\"post\" action=\"%s\">", p.At("/saga/data"))
		p.Hidden("token", p.Token, "in", v.Source, "name", v.Name, "key", v.Key)
		p.Put("<p>Hidden. <button>Show them</button> <span class=\"dim\">Your name is recorded.</span></p></form>\n")
	}
	p.Put("</section>\n")
}
