package view

import (
	"context"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
)

// doctorPage has the findings of operate.Doctor in one source. This page needs more queries than other
// pages, so it has no automatic refresh.
type doctorPage struct {
	Source   string            `json:"source"`
	Findings []operate.Finding `json:"findings"`
	Failed   int               `json:"failed"`
	Warnings int               `json:"warnings"`
	Command  string            `json:"command"`
}

// Doctor is the page of the findings of operate.Doctor in one source.
func Doctor(q *page.Request) (page.View, error) {
	s, err := q.Source()
	if err != nil {
		return nil, err
	}
	v := &doctorPage{Source: s.Name, Command: page.DoctorCommand(s.At)}
	v.Findings, err = page.One(q, s, func(ctx context.Context, s *page.Source) ([]operate.Finding, error) {
		subject, ok := s.DB.(operate.DoctorStore)
		if !ok {
			return nil, &operate.UsageError{Reason: "its driver does not support this"}
		}
		d := operate.Doctor{}
		d.Store(ctx, subject)
		d.Consumers()
		return d.Found, ctx.Err()
	})
	for _, f := range v.Findings {
		switch f.Grade {
		case skald.Failed:
			v.Failed++
		case skald.Doubtful:
			v.Warnings++
		}
	}
	return v, err
}

func (v *doctorPage) Heading() string { return "Doctor: " + v.Source }

func (v *doctorPage) HTML(p *page.Page) {
	p.Put("<p>%d failed, %d warnings. Only the database was checked. This command also checks the broker and the retention windows: <code>%s</code></p>\n",
		v.Failed, v.Warnings, v.Command)
	p.Put("<section class=\"card\">")
	p.Table("Findings of %s", v.Source)
	p.Heads("grade", "what", "observed", "to do")
	for _, f := range v.Findings {
		class := page.ClassOf(f.Grade)
		if f.Grade == skald.Fine {
			class = ""
		}
		p.Put("<tr class=\"%s\"><td>%s</td><td>%s</td><td class=\"why\">%s</td><td class=\"why\">%s</td></tr>\n", class, f.Grade, f.Name, f.Observed, f.Remedy)
	}
	p.Put("</table></div></section>\n")
}
