package console

import (
	"context"

	"github.com/skald-go/skald/console/internal/source"
	"github.com/skald-go/skald/console/internal/spell"
	"github.com/skald-go/skald/operate"
)

// A callsPage is calls to the outside of which it is not known what became of them.
type callsPage struct {
	Parts []callsPart   `json:"sources"`
	Away  []source.Away `json:"away"`
}

type callsPart struct {
	Source string                `json:"source"`
	Calls  []operate.UnknownCall `json:"calls"`
}

func calls(q *request) (view, error) {
	parts, away, err := partsOf(q, func(ctx context.Context, s *source.Source) (callsPart, error) {
		list, err := operate.UnknownCalls(ctx, s.DB, s.At, pageOf)
		return callsPart{s.Name, append([]operate.UnknownCall{}, list...)}, err
	})
	return &callsPage{parts, away}, err
}

func (*callsPage) Heading() string { return "Calls whose outcome is not known" }
func (*callsPage) Live()           {}

func (v *callsPage) HTML(p *page) {
	p.away(v.Away)
	p.put("<p>The first %d of messages and of sagas. Each is asked again by itself, unless it is dead or stuck: then look it up at the provider, and say here what you found.</p>\n", pageOf)
	n := 0
	for i := range v.Parts {
		part := &v.Parts[i]
		if n += len(part.Calls); len(part.Calls) == 0 {
			continue
		}
		p.put("<section class=\"card\">\n<h2>%s</h2>\n", part.Source)
		p.table("Calls of %s", part.Source)
		p.heads("whose", "at the provider", "since", "failed", "error", "to settle it")
		for j := range part.Calls {
			unknownCall(p, part.Source, &part.Calls[j])
		}
		p.put("</table></div>\n</section>\n")
	}
	if n == 0 {
		p.put("<p class=\"note fine\">None, as far as the sources that answered know.</p>\n")
	}
}

func unknownCall(p *page, source string, c *operate.UnknownCall) {
	p.put("<tr><td>")
	if c.Saga != "" {
		p.put("%s ", c.Saga)
		p.link(c.Key, "/saga", "in", source, "name", c.Saga, "key", c.Key)
		p.put("<br>step %s", c.Step)
		if c.Undo {
			p.put(", its undo")
		}
	} else {
		p.put("%s<br>", c.Consumer)
		p.link(c.ID, "/message", "in", source, "consumer", c.Consumer, "source", c.Source, "id", c.ID)
	}
	if c.Dead || c.Stuck {
		p.put(" <b class=\"late\">%s</b>", map[bool]string{true: "dead", false: "stuck"}[c.Dead])
	}
	p.put("</td><td>%s</td><td>", c.Outside)
	if c.Since != nil {
		p.when(*c.Since)
	}
	p.put("</td><td class=\"n\">%d</td><td class=\"why\">%s</td><td class=\"typed\">", c.Attempts, spell.Cut(c.Error, 200))
	for _, command := range c.Commands {
		p.put("<p><code>%s</code></p>", command)
	}
	p.put("</td></tr>\n")
}
