package console

import (
	"context"
	"slices"

	"github.com/skald-go/skald/console/internal/source"
	"github.com/skald-go/skald/console/internal/spell"
	"github.com/skald-go/skald/operate"
)

// A runsPage lists the last bulk actions, and how far they are.
type runsPage struct {
	Runs []runPage     `json:"runs"`
	Next []runsNext    `json:"next,omitempty"`
	Away []source.Away `json:"away"`
}

// A runsNext is where earlier runs of a source begin.
type runsNext struct {
	Source string `json:"source"`
	Before int64  `json:"before"`
}

// runsRead are of a source.
type runsRead struct {
	runs []operate.Run
	next int64
}

const runsWithin = 10_000 // of the last acts

func (h *jobs) runs(q *request) (view, error) {
	only, err := q.only()
	if err != nil {
		return nil, err
	}
	before, err := number64(q, "before")
	if err != nil {
		return nil, err
	}
	here := h.inHand() // first: one that ends meanwhile is read as ended
	got, away := source.Each(q.Context(), q.sources, only, func(ctx context.Context, s *source.Source) (out runsRead, err error) {
		out.runs, out.next, err = operate.ReadRuns(ctx, s.DB, before, runsWithin)
		return out, err
	})
	v := &runsPage{Runs: []runPage{}, Away: append([]source.Away{}, away...)}
	for _, g := range got {
		if g.Is.next > 0 {
			v.Next = append(v.Next, runsNext{g.Name, g.Is.next})
		}
		for _, r := range g.Is.runs {
			r.Request = r.Request.WithoutData()
			v.Runs = append(v.Runs, runPage{g.Name, r, here[jobName(g.Name, r.ID)] && r.Ended == "", g.Source})
		}
	}
	slices.SortStableFunc(v.Runs, func(a, b runPage) int { return b.Begun.Compare(a.Begun) })
	return v, nil
}

func (*runsPage) Heading() string { return "Actions" }

func (v *runsPage) HTML(p *page) {
	p.away(v.Away)
	if p.arg("before") != "" {
		p.put("<p>Bulk actions that began earlier, the last first.</p>\n")
	} else {
		p.put("<p>Bulk actions among the last %s acts of each source, the last begun first; further back where they fill those.</p>\n", spell.Number(runsWithin))
	}
	defer v.earlier(p)
	if len(v.Runs) == 0 {
		p.put("<p class=\"note fine\">None began here.</p>\n")
		return
	}
	p.put("<section class=\"card\">")
	p.table("Bulk actions")
	p.heads("run", "source", "verb", "consumer", "changed", "stands", "by", "why", "begun")
	for i := range v.Runs {
		r := &v.Runs[i]
		p.put("<tr><td>")
		p.link(r.ID, "/run", "in", r.Source, "run", r.ID)
		p.put("</td><td>%s</td><td>%s</td><td>%s</td><td class=\"n\">%d of %d</td><td class=\"why\">", r.Source, r.Verb, r.Request.Selection.Consumer, r.Done, r.Request.Of)
		r.stands(p)
		p.put("</td><td>%s</td><td class=\"why\">%s</td><td>", r.Author, spell.Cut(r.Reason, 200))
		p.when(r.Begun)
		p.put("</td></tr>\n")
	}
	p.put("</table></div></section>\n")
}

func (v *runsPage) earlier(p *page) {
	for _, n := range v.Next {
		p.put("<p>")
		p.link("Earlier ones of "+n.Source, "/runs", "in", n.Source, "before", spell.Digits(n.Before))
		p.put("</p>\n")
	}
}

// stands says in a line how the run stands.
func (v *runPage) stands(p *page) {
	switch {
	case v.Ended != "":
		p.put("ended: %s", spell.Cut(v.Ended, 200))
	case v.Here:
		p.put("<b>in hand</b>")
	case v.Stopped != "":
		p.put("<b class=\"late\">interrupted</b>: %s", spell.Cut(v.Stopped, 200))
	default:
		p.put("<b class=\"late\">not ended</b>: nobody at this console has it in hand")
	}
}
