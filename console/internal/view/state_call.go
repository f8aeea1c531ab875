package view

import (
	"context"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
)

// callsPage lists external calls with an unknown outcome.
type callsPage struct {
	Parts []callsPart        `json:"sources"`
	Away  []page.Unreachable `json:"away"`
}

type callsPart struct {
	Source string                `json:"source"`
	Calls  []operate.UnknownCall `json:"calls"`
}

// Calls is the page of external calls with an unknown outcome.
func Calls(q *page.Request) (page.View, error) {
	parts, away, err := page.Parts(q, func(ctx context.Context, s *page.Source) (callsPart, error) {
		list, err := operate.UnknownCalls(ctx, s.DB, s.At, page.Rows)
		return callsPart{s.Name, append([]operate.UnknownCall{}, list...)}, err
	})
	return &callsPage{parts, away}, err
}

func (*callsPage) Heading() string { return "Calls with an unknown outcome" }
func (*callsPage) Live()           {}

func (v *callsPage) HTML(p *page.Page) {
	p.Away(v.Away)
	p.Put("<p>The first %d of messages and of sagas. Skald looks each up again, unless it is dead or stuck: then look it up at the provider, and settle it with the command.</p>\n", page.Rows)
	n := 0
	for i := range v.Parts {
		part := &v.Parts[i]
		if n += len(part.Calls); len(part.Calls) == 0 {
			continue
		}
		p.Put("<section class=\"card\">\n<h2>%s</h2>\n", part.Source)
		p.Table("Calls of %s", part.Source)
		p.Heads("whose", "at the provider", "since", "failed", "error", "to settle it")
		for j := range part.Calls {
			unknownCall(p, part.Source, &part.Calls[j])
		}
		p.Put("</table></div>\n</section>\n")
	}
	if n == 0 {
		p.None()
	}
}

func unknownCall(p *page.Page, source string, c *operate.UnknownCall) {
	p.Put("<tr><td>")
	if c.Saga != "" {
		p.Put("%s ", c.Saga)
		p.Link(c.Key, "/saga", "in", source, "name", c.Saga, "key", c.Key)
		p.Put("<br>step %s", c.Step)
		if c.Undo {
			p.Put(", its undo")
		}
	} else {
		p.Put("%s<br>", c.Consumer)
		p.Link(c.ID, "/message", "in", source, "consumer", c.Consumer, "source", c.Source, "id", c.ID)
	}
	if c.Dead || c.Stuck {
		p.Put(" <b class=\"late\">%s</b>", map[bool]string{true: "dead", false: "stuck"}[c.Dead])
	}
	p.Put("</td><td>%s</td><td>", c.Outside)
	if c.Since != nil {
		p.When(*c.Since)
	}
	p.Put("</td><td class=\"n\">%d</td><td class=\"why\">%s</td><td class=\"typed\">", c.Attempts,
		page.Cut(c.Error, 200))
	for _, command := range c.Commands {
		p.Put("<p><code>%s</code></p>", command)
	}
	p.Put("</td></tr>\n")
}
