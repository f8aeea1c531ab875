package view

import (
	"context"
	"slices"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
)

// runsPage lists the latest bulk actions and their progress.
type runsPage struct {
	Runs []runPage          `json:"runs"`
	Next []runsNext         `json:"next,omitempty"`
	Away []page.Unreachable `json:"away"`
}

// runsNext has the argument for the next page of a source.
type runsNext struct {
	Source string `json:"source"`
	Before int64  `json:"before"`
}

// runsRead is the answer of one source.
type runsRead struct {
	runs []operate.Run
	next int64
}

const runsWithin = 10_000 // the number of audits in which the page searches for runs

// Runs is the page of the latest runs.
func (js *Jobs) Runs(q *page.Request) (page.View, error) {
	only, err := q.Only()
	if err != nil {
		return nil, err
	}
	before, err := page.Place(q, "before")
	if err != nil {
		return nil, err
	}
	here := js.inHand() // before the query: a run that ends in between is then shown as ended
	got, away := page.Each(q.Context(), q.Sources, only,
		func(ctx context.Context, s *page.Source) (out runsRead, err error) {
			out.runs, out.next, err = operate.ReadRuns(ctx, s.DB, before, runsWithin)
			return out, err
		})
	v := &runsPage{Runs: []runPage{}, Away: append([]page.Unreachable{}, away...)}
	for _, g := range got {
		if g.Is.next > 0 {
			v.Next = append(v.Next, runsNext{g.Name, g.Is.next})
		}
		for _, r := range g.Is.runs {
			r.Request = r.Request.WithoutData()
			v.Runs = append(v.Runs, runPage{g.Name, r, here[jobName(g.Name, r.ID)] &&
				r.Ended == "", g.Source})
		}
	}
	slices.SortStableFunc(v.Runs, func(a, b runPage) int { return b.Begun.Compare(a.Begun) })
	return v, nil
}

func (*runsPage) Heading() string { return "Actions" }

func (v *runsPage) HTML(p *page.Page) {
	p.Away(v.Away)
	if p.Arg("before") != "" {
		p.Put("<p>Earlier bulk actions, newest first.</p>\n")
	} else {
		p.Put("<p>Bulk actions among the newest %s audit entries of each source, newest first.</p>\n", page.Number(runsWithin))
	}
	defer v.earlier(p)
	if len(v.Runs) == 0 {
		p.Put("<p class=\"note fine\">None.</p>\n")
		return
	}
	p.Put("<section class=\"card\">")
	p.Table("Bulk actions")
	p.Heads("run", "source", "verb", "consumer", "changed", "stands", "by", "why", "begun")
	for i := range v.Runs {
		r := &v.Runs[i]
		p.Put("<tr><td>")
		p.Link(r.ID, "/run", "in", r.Source, "run", r.ID)
		p.Put("</td><td>%s</td><td>%s</td><td>%s</td><td class=\"n\">%d of %d</td><td class=\"why\">",
			r.Source, r.Verb, r.Request.Selection.Consumer, r.Done, r.Request.Of)
		r.writeState(p)
		p.Put("</td><td>%s</td><td class=\"why\">%s</td><td>", r.Author, page.Cut(r.Reason, 200))
		p.When(r.Begun)
		p.Put("</td></tr>\n")
	}
	p.Put("</table></div></section>\n")
}

func (v *runsPage) earlier(p *page.Page) {
	for _, n := range v.Next {
		p.Put("<p>")
		p.Link("Earlier ones of "+n.Source, "/runs", "in", n.Source, "before", page.Digits(n.Before))
		p.Put("</p>\n")
	}
}

// writeState writes the state of the run in one line.
func (v *runPage) writeState(p *page.Page) {
	switch {
	case v.Ended != "":
		p.Put("ended: %s", page.Cut(v.Ended, 200))
	case v.Here:
		p.Put("<b>in hand</b>")
	case v.Stopped != "":
		p.Put("<b class=\"late\">interrupted</b>: %s", page.Cut(v.Stopped, 200))
	default:
		p.Put("<b class=\"late\">not ended</b>: this console is not running it")
	}
}
