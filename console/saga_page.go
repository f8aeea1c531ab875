package console

import (
	"maps"
	"slices"

	"github.com/skald-go/skald/console/internal/guard"
	"github.com/skald-go/skald/console/internal/spell"
	"github.com/skald-go/skald/operate"
)

func (*sagaPage) Live()             {}
func (v *sagaPage) Heading() string { return "Saga " + v.Name + " " + spell.Cut(v.Key, 80) }

func (v *sagaPage) HTML(p *page) {
	p.put("<p class=\"dim\">%s · ", v.Source)
	p.link("the story of its key", "/story", "q", v.Key)
	p.put("</p>\n<section class=\"card\">\n<h2>%s", v.Status)
	if v.Stuck {
		p.put(", <span class=\"late\">stuck</span>")
	}
	if v.Paused {
		p.put(", paused")
	}
	p.put("</h2>\n")
	if v.picture != "" {
		p.put("<div class=\"picture\">")
		p.WriteString(v.picture) // draw escapes what it is given
		p.put("</div>\n")
	}
	for _, line := range v.Explained {
		p.put("<p>%s</p>\n", line)
	}
	p.put("<dl class=\"rows\">\n")
	p.row("id", v.ID)
	p.row("definition", v.Hash)
	p.row("parent", v.Parent)
	p.row("correlation", v.Correlation)
	p.row("in hand at", v.Session)
	p.put("<div><dt>started</dt><dd>")
	p.when(v.Started)
	p.put("</dd></div>\n<div><dt>changed</dt><dd>")
	p.when(v.Changed)
	p.put("</dd></div>\n</dl>\n")
	if v.Ended == nil {
		p.put("<p class=\"verbs\">")
		pause := operate.PauseSaga
		if v.Paused {
			pause = operate.ResumeSaga
		}
		v.button(p, pause, "", "")
		if !v.forward {
			v.button(p, operate.CancelSaga, "", "")
		}
		p.put("</p>\n")
	}
	p.put("</section>\n")
	v.runs(p)
	v.data(p)
}

func (v *sagaPage) button(p *page, verb operate.SagaVerb, step, occurrence string) {
	if p.may(guard.Act) {
		p.put(`<a class="button" href="%s">%s …</a> `, p.at("/act", "verb", ofSaga+string(verb), "in", v.Source, "name", v.Name, "key", v.Key, "step", step, "occurrence", occurrence),
			verbTitle(ofSaga+string(verb)))
	}
}

func (v *sagaPage) runs(p *page) {
	p.put("<section class=\"card\"><h2>Steps</h2>\n")
	p.table("Steps")
	p.put("<tr><th scope=\"col\">step</th><th scope=\"col\">phase</th><th scope=\"col\" class=\"n\">failed</th><th scope=\"col\">due</th>" +
		"<th scope=\"col\">error</th><th scope=\"col\"><span class=\"out\">verbs</span></th></tr>\n")
	for i := range v.Runs {
		r := &v.Runs[i]
		p.put("<tr><td>%s %s</td><td>%s", r.Step, r.Occurrence, r.Phase)
		if r.Stuck {
			p.put(" <b class=\"late\">stuck</b>")
		}
		p.put("</td><td class=\"n\">%d</td><td>", r.Attempts)
		if r.Due != nil {
			p.when(*r.Due)
		}
		p.put("</td><td class=\"why\">%s</td><td class=\"verbs\">", spell.Cut(spell.FirstLine(r.Error), 300))
		if r.Stuck || r.Attempts > 0 {
			for _, verb := range []operate.SagaVerb{operate.RetrySaga, operate.CompleteSaga, operate.SkipSaga} {
				v.button(p, verb, r.Step, r.Occurrence)
			}
		}
		p.put("</td></tr>\n")
	}
	p.put("</table></div></section>\n")
}

func (v *sagaPage) data(p *page) {
	p.put("<section class=\"card\"><h2>Input and outputs</h2>\n")
	switch {
	case v.Shown != nil:
		p.put("<p>Input</p>\n<pre>%s</pre>\n", v.Shown.Input)
		for _, step := range slices.Sorted(maps.Keys(v.Shown.Outputs)) {
			p.put("<p>Output of %s</p>\n<pre>%s</pre>\n", step, v.Shown.Outputs[step])
		}
	case !p.may(guard.Payloads):
		p.put("<p class=\"dim\">Hidden: you lack the right to see payloads.</p>\n")
	default:
		p.put("<form method=\"post\" action=\"%s\">", p.at("/saga/data"))
		p.hidden("token", p.q.Token, "in", v.Source, "name", v.Name, "key", v.Key)
		p.put("<p>Hidden. <button>Show them</button> <span class=\"dim\">It is noted who looked.</span></p></form>\n")
	}
	p.put("</section>\n")
}
