// This file has the page of the audit.

package view

import (
	"context"
	"strings"
	"time"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// line is an entry of the audit.
type line struct {
	Number   int64     `json:"number"`
	Source   string    `json:"source"` // the database of the audit
	At       time.Time `json:"at"`
	Author   string    `json:"author"`
	Login    string    `json:"login,omitempty"`
	Action   string    `json:"action"`
	Reason   string    `json:"reason"`
	Consumer string    `json:"consumer,omitempty"`
	From     string    `json:"message_source,omitempty"`
	ID       string    `json:"id,omitempty"`
	Run      string    `json:"run,omitempty"`
}

// lineOf converts an entry of a source's audit.
func lineOf(source string, a *store.Audit) line {
	return line{a.Number, source, a.At, a.Author, a.Login, operate.ActionWithoutData(a), a.Reason, a.Consumer,
		a.Identity.Source, a.ID, a.Run}
}

type auditPage struct {
	Parts []auditPart        `json:"sources"`
	Away  []page.Unreachable `json:"away"`
}

type auditPart struct {
	Source string `json:"source"`
	Acts   []line `json:"acts"`
	Next   int64  `json:"next,omitempty"` // the argument "before" of the next page
}

// List is the page of operators' actions.
func List(q *page.Request) (page.View, error) {
	before, err := page.Place(q, "before")
	if err != nil {
		return nil, err
	}
	words := strings.ToLower(q.Arg("has"))
	parts, away, err := page.Parts(q, func(ctx context.Context, s *page.Source) (auditPart, error) {
		return auditsOf(ctx, s, before, words)
	})
	return &auditPage{parts, away}, err
}

// auditsOf reads a page of the audit that comes before the entry with this number. If words is not empty,
// it searches the next 10,000 entries for these words.
func auditsOf(ctx context.Context, s *page.Source, number int64, words string) (auditPart, error) {
	part, scan := auditPart{Source: s.Name, Acts: []line{}}, page.Rows+1
	if words != "" {
		scan = page.Scan
	}
	list, err := s.DB.Audits(ctx, store.AuditQuery{Before: max(number, 0), Limit: scan})
	for i := range list {
		if len(part.Acts) == page.Rows {
			part.Next = part.Acts[page.Rows-1].Number
			break
		}
		a := lineOf(s.Name, &list[i])
		if words == "" || strings.Contains(strings.ToLower(a.Author+" "+a.Action+" "+a.Reason+" "+a.Consumer+
			" "+a.ID+" "+a.Run), words) {
			part.Acts = append(part.Acts, a)
		}
	}
	if part.Next == 0 && words != "" && len(list) == scan {
		part.Next = list[scan-1].Number
	}
	return part, err
}

func (*auditPage) Heading() string { return "What operators did" }

func (v *auditPage) HTML(p *page.Page) {
	p.Away(v.Away)
	p.FilterForm("/audit", "has")
	for i := range v.Parts {
		part := &v.Parts[i]
		p.Put("<section class=\"card\">\n<h2>%s</h2>\n", part.Source)
		if len(part.Acts) == 0 {
			p.Put("<p class=\"dim\">Nothing.</p>\n")
		} else {
			table(p, part.Acts)
		}
		if part.Next > 0 {
			p.Put("<p>")
			p.Link("Earlier ones", "/audit", "in", part.Source, "has", p.Arg("has"),
				"before", page.Digits(part.Next))
			p.Put("</p>\n")
		}
		p.Put("</section>\n")
	}
}

// compensated returns KEY of an action "compensate FLOW KEY: STEPS".
func compensated(action string) string {
	_, rest, _ := strings.Cut(strings.TrimPrefix(action, "compensate "), " ")
	return rest[:max(strings.LastIndex(rest, ": "), 0)]
}

// table writes entries as a table.
func table(p *page.Page, list []line) {
	p.Table("What operators did")
	p.Put("<tr><th scope=\"col\">at</th><th scope=\"col\">who</th><th scope=\"col\">did</th>" +
		"<th scope=\"col\">to</th><th scope=\"col\">why</th></tr>\n")
	for i := range list {
		a := &list[i]
		p.Put("<tr><td>")
		p.When(a.At)
		p.Put("</td><td>%s", a.Author)
		if a.Login != "" {
			p.Put(" <span class=\"dim\">(%s)</span>", a.Login)
		}
		p.Put("</td><td>%s", page.Cut(a.Action, 200))
		if a.Run != "" {
			p.Put("<br>")
			p.Link(a.Run, "/run", "in", a.Source, "run", a.Run)
		}
		p.Put("</td><td>%s<br>", a.Consumer)
		switch {
		case strings.HasPrefix(a.Action, "saga ") || a.Action == "show saga data": // Consumer is the name
			p.Link(page.Cut(a.ID, page.MostID), "/saga", "in", a.Source, "name", a.Consumer, "key", a.ID)
		case strings.HasPrefix(a.Action, "compensate "):
			p.Link(page.Cut(a.ID, page.MostID), "/story", "q", compensated(a.Action))
		case a.Consumer != "" && a.ID != "":
			p.Link(page.Cut(a.ID, page.MostID), "/message", "in", a.Source, "consumer", a.Consumer,
				"source", a.From, "id", a.ID)
		default:
			p.Put("%s", page.Cut(a.ID, page.MostID))
		}
		p.Put("</td><td class=\"why\">%s</td></tr>\n", page.Cut(a.Reason, 300))
	}
	p.Put("</table></div>\n")
}
