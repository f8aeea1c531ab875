// This file has the pages that list parked messages and dead letters.

package view

import (
	"context"
	"strconv"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// keptPage lists parked messages or dead letters of each source.
type keptPage struct {
	Dead  bool               `json:"dead"`
	Parts []keptPart         `json:"sources"`
	Away  []page.Unreachable `json:"away"`
}

type keptPart struct {
	Source   string        `json:"source"`
	Messages []messageLine `json:"messages"`
	// Next is the argument "after" of the next page of this source; 0 for the last page.
	Next    int64 `json:"next,omitempty"`
	Scanned int   `json:"scanned"` // the number of messages that were read, if that limit ended the page
}

// messageLine is a message in a list, without payload and headers.
type messageLine struct {
	operate.Message
	State string `json:"state"`
}

// messageLineOf returns p as a line of a list.
func messageLineOf(p *store.Parked) messageLine {
	return messageLine{operate.NewMessage(p), operate.State(p)}
}

// Dead and Parked are the pages of dead letters and of parked messages.
func Dead(q *page.Request) (page.View, error)   { return keptList(q, true) }
func Parked(q *page.Request) (page.View, error) { return keptList(q, false) }

func keptList(q *page.Request, dead bool) (page.View, error) {
	s, err := messageSelect(q, dead)
	if err != nil {
		return nil, err
	}
	parts, away, err := page.Parts(q, func(ctx context.Context, from *page.Source) (keptPart, error) {
		all, err := operate.ListPage(ctx, from.DB, s, true, operate.PageLimits{Limit: page.Rows,
			Scan: page.Scan})
		part := keptPart{Source: from.Name, Messages: []messageLine{}, Next: all.Next, Scanned: all.Scanned}
		for i := range all.List {
			part.Messages = append(part.Messages, messageLineOf(&all.List[i]))
		}
		return part, err
	})
	return &keptPage{dead, parts, away}, err
}

func (v *keptPage) Heading() string {
	if v.Dead {
		return "Dead letters"
	}
	return "Parked messages"
}

func (*keptPage) Live() {}

func (v *keptPage) path() string {
	if v.Dead {
		return "/dead"
	}
	return "/parked"
}

func (v *keptPage) HTML(p *page.Page) {
	p.Away(v.Away)
	if v.Dead {
		p.Put("<p>")
		p.Link("Grouped by how they failed", "/dead/groups", messageFilters(p.Request)...)
		p.Put("</p>\n")
		p.FilterForm("/dead", "consumer", "fingerprint", "kind", "type", "topic", "key", "id")
	} else {
		p.FilterForm("/parked", "consumer", "type", "topic", "key", "id")
	}
	n := 0
	for i := range v.Parts {
		if n += len(v.Parts[i].Messages); v.Parts[i].Next > 0 {
			n++ // the source may have more matching messages
		}
		v.part(p, &v.Parts[i])
	}
	if n == 0 {
		p.None()
	}
}

func (v *keptPage) part(p *page.Page, part *keptPart) {
	if len(part.Messages) == 0 && part.Next == 0 {
		return
	}
	p.Put("<section class=\"card\">\n<h2>%s</h2>\n", part.Source)
	verbs := []string{"release"}
	if v.Dead {
		verbs = []string{"redrive", "drop"}
	}
	if p.May(page.Act) {
		p.Put("<p class=\"verbs\">")
		for _, verb := range verbs {
			args := append(messageFilters(p.Request), "verb", verb, "in", part.Source)
			p.Put(`<a class="button" href="%s">%s all that match the filter …</a> `, p.At("/act", args...),
				page.Title(verb))
		}
		p.Put("</p>\n")
	}
	p.Table("%s of %s", v.Heading(), part.Source)
	p.Put("<tr><th scope=\"col\">message</th><th scope=\"col\">consumer</th><th scope=\"col\">key</th><th scope=\"col\">state</th>" +
		"<th scope=\"col\" class=\"n\">attempts</th><th scope=\"col\">since</th><th scope=\"col\">error</th></tr>\n")
	for i := range part.Messages {
		m := &part.Messages[i]
		p.Put("<tr><td>%s<br>", m.Type)
		p.Link(page.Cut(m.ID, page.MostID), "/message", "in", part.Source, "consumer", m.Consumer,
			"source", m.Source, "id", m.ID)
		p.Put("</td><td>%s</td><td>%s</td><td>%s</td><td class=\"n\">%d</td><td>", m.Consumer,
			page.Cut(page.Key(m.Key), 60), m.State, m.Attempts)
		p.When(m.Since)
		p.Put("</td><td class=\"why\">%s</td></tr>\n", page.Cut(page.FirstLine(m.LastError), 200))
	}
	p.Put("</table></div>\n")
	if part.Next > 0 {
		args := append(messageFilters(p.Request), "in", part.Source, "after", strconv.FormatInt(part.Next,
			10))
		p.Put("<p>")
		if part.Scanned > 0 {
			p.Put("%s were scanned. ", page.Number(int64(part.Scanned)))
		}
		p.Link("The next ones", v.path(), args...)
		p.Put("</p>\n")
	}
	p.Put("</section>\n")
}

// groupsPage lists dead letters grouped by failure.
type groupsPage struct {
	Parts []groupsPart       `json:"sources"`
	Away  []page.Unreachable `json:"away"`
}

type groupsPart struct {
	Source string          `json:"source"`
	Groups []operate.Group `json:"groups"`
	// More is true if only the first 10,000 dead letters were counted.
	More bool `json:"more"`
}

// Groups is the page of dead letters grouped by failure.
func Groups(q *page.Request) (page.View, error) {
	s, err := messageSelect(q, true)
	if err != nil {
		return nil, err
	}
	parts, away, err := page.Parts(q, func(ctx context.Context, from *page.Source) (groupsPart, error) {
		// Read one more than are counted, to detect that there are more.
		all, err := operate.ListPage(ctx, from.DB, s, true,
			operate.PageLimits{Limit: page.Exact, Scan: page.Exact + 1})
		var g operate.Grouping
		for i := range all.List {
			g.Add(&all.List[i])
		}
		return groupsPart{from.Name, append([]operate.Group{}, g.All...), all.Next > 0}, err
	})
	return &groupsPage{parts, away}, err
}

func (*groupsPage) Heading() string { return "Dead letters, by how they failed" }
func (*groupsPage) Live()           {}

func (v *groupsPage) HTML(p *page.Page) {
	p.Away(v.Away)
	p.Put("<p>")
	p.Link("One by one", "/dead", messageFilters(p.Request)...)
	p.Put("</p>\n")
	p.FilterForm("/dead/groups", "consumer", "kind", "type", "topic")
	n := 0
	for i := range v.Parts {
		part := &v.Parts[i]
		n += len(part.Groups)
		if len(part.Groups) == 0 {
			continue
		}
		p.Put("<section class=\"card\">\n<h2>%s</h2>\n", part.Source)
		if part.More {
			p.Put(
				"<p class=\"note warn\">Only the first %s dead letters are counted: narrow the filter.</p>\n",
				page.Number(page.Exact))
		}
		p.Table("Dead letters of %s", part.Source)
		p.Put("<tr><th scope=\"col\" class=\"n\">count</th><th scope=\"col\">consumer</th><th scope=\"col\">kind</th><th scope=\"col\">type</th><th scope=\"col\">error of one</th>" +
			"<th scope=\"col\">first, last</th><th scope=\"col\"><span class=\"out\">verbs</span></th></tr>\n")
		for j := range part.Groups {
			groupLine(p, part.Source, &part.Groups[j])
		}
		p.Put("</table></div>\n</section>\n")
	}
	if n == 0 {
		p.None()
	}
}

func groupLine(p *page.Page, source string, g *operate.Group) {
	of := messageFilters(p.Request, "in", source, "consumer", g.Consumer, "fingerprint", g.Fingerprint)
	p.Put("<tr><td class=\"n\">")
	p.Link(page.Number(int64(g.Count)), "/dead", of...)
	p.Put("</td><td>%s</td><td>%s</td><td class=\"type\">%s</td><td class=\"why\">%s<br><code>%s</code></td><td>",
		g.Consumer, g.Kind, g.Type, page.Cut(page.FirstLine(g.Error), 200), g.Fingerprint)
	p.When(g.First)
	p.Put("<br>")
	p.When(g.Last)
	p.Put("</td><td class=\"verbs\">")
	if p.May(page.Act) {
		for _, verb := range []string{"redrive", "drop"} {
			title := page.Title(verb)
			p.Put(`<a class="button" href="%s" aria-label="%s those of %s, %s …">%s …</a> `,
				p.At("/act", append(of, "verb", verb)...),
				title, g.Consumer, g.Fingerprint, title)
		}
	}
	p.Put("</td></tr>\n")
}
