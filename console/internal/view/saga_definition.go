package view

import (
	"context"
	"net/http"
	"strings"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
)

// definitionsPage lists the definitions of orchestrated sagas that engines have stored.
type definitionsPage struct {
	Parts []definitionsPart  `json:"sources"`
	Away  []page.Unreachable `json:"away"`
}

type definitionsPart struct {
	Source      string               `json:"source"`
	Definitions []operate.Definition `json:"definitions"`
}

// Definitions is the page of all definitions.
func Definitions(q *page.Request) (page.View, error) {
	parts, away, err := page.Parts(q, func(ctx context.Context, s *page.Source) (definitionsPart, error) {
		list, err := operate.Definitions(ctx, s.DB, q.Arg("name"))
		return definitionsPart{s.Name, append([]operate.Definition{}, list...)}, err
	})
	return &definitionsPage{parts, away}, err
}

func (*definitionsPage) Heading() string { return "Definitions of sagas" }

func (v *definitionsPage) HTML(p *page.Page) {
	p.Away(v.Away)
	p.Put("<p>Definitions that engines have recorded, newest first. Each older version is compared with the newest one of its name, to show the effect on its running sagas.</p>\n")
	p.FilterForm("/definitions", "name")
	n := 0
	for i := range v.Parts {
		part := &v.Parts[i]
		if n += len(part.Definitions); len(part.Definitions) == 0 {
			continue
		}
		p.Put("<section class=\"card\">\n<h2>%s</h2>\n", part.Source)
		p.Table("Definitions of %s", part.Source)
		p.Heads("saga", "version", "noted", "steps", "compared with the newest")
		for j := range part.Definitions {
			definitionLine(p, part.Source, &part.Definitions[j])
		}
		p.Put("</table></div>\n</section>\n")
	}
	if n == 0 {
		p.None()
	}
}

func definitionLine(p *page.Page, source string, d *operate.Definition) {
	p.Put("<tr><td>")
	p.Link(d.Name, "/sagas", "in", source, "name", d.Name)
	p.Put("</td><td>")
	p.Link(d.Hash, "/definition", "in", source, "name", d.Name, "hash", d.Hash)
	p.Put("</td><td>")
	p.When(d.LastStored)
	p.Put("</td><td>%s</td><td class=\"why\">", strings.Join(d.Steps, ", "))
	switch {
	case d.DecodeError != "":
		p.Put("%s", d.DecodeError)
	case d.ComparedWith == "":
		p.Put("it is the newest")
	case len(d.Changes) == 0:
		p.Put("no effect on its sagas")
	default:
		p.Put("%d changes", len(d.Changes))
	}
	p.Put("</td></tr>\n")
}

// definitionPage has one version of a definition: its drawing, and its differences from the newest version.
type definitionPage struct {
	Source string `json:"source"`
	operate.Definition
	picture string // SVG
}

// Definition is the page of one version of a definition.
func Definition(q *page.Request) (page.View, error) {
	s, err := q.Source()
	if err != nil {
		return nil, err
	}
	name, hash := q.Arg("name"), q.Arg("hash")
	list, err := page.One(q, s, func(ctx context.Context, s *page.Source) ([]operate.Definition, error) {
		return operate.Definitions(ctx, s.DB, name)
	})
	if err != nil {
		return nil, err
	}
	for i := range list {
		if d := &list[i]; name != "" && d.Hash == hash {
			picture, err := d.Draw("svg")
			return &definitionPage{s.Name, *d, picture}, err
		}
	}
	return nil, page.NewRefusal(http.StatusNotFound, "no engine has recorded the version %.80q of %.80q",
		hash, name)
}

func (v *definitionPage) Heading() string { return v.Name + " " + v.Hash }

func (v *definitionPage) HTML(p *page.Page) {
	p.Put("<section class=\"card\">\n")
	if v.picture != "" {
		p.Put("<div class=\"picture\">")
		p.WriteString(v.picture) // package draw has escaped all texts
		p.Put("</div>\n")
	}
	p.Put("<dl class=\"rows\">\n")
	p.Row("source", v.Source)
	p.Row("deadline", v.Deadline)
	p.Row("error", v.DecodeError)
	p.Put("<div><dt>noted</dt><dd>")
	p.When(v.LastStored)
	p.Put("</dd></div>\n</dl>\n<p>")
	p.Link("Its sagas", "/sagas", "in", v.Source, "name", v.Name)
	p.Put("</p>\n</section>\n")
	if v.ComparedWith == "" {
		p.Put("<p class=\"note fine\">It is the newest version.</p>\n")
		return
	}
	p.Put("<section class=\"card\"><h2>Compared with %s, the newest version</h2>\n", v.ComparedWith)
	if len(v.Changes) == 0 {
		p.Put("<p>No effect on its sagas.</p></section>\n")
		return
	}
	p.Table("Changes by step")
	p.Heads("step", "change", "its sagas")
	for _, c := range v.Changes {
		p.Put("<tr><td>%s</td><td class=\"why\">%s</td><td>%s</td></tr>\n", c.Step, c.Change, effectOnSagas(&c))
	}
	p.Put("</table></div></section>\n")
}

// effectOnSagas returns a text about the effect of a change on running sagas.
func effectOnSagas(c *operate.DefinitionChange) string {
	which := ""
	if c.Begun != "" {
		which = ", if they have begun " + c.Begun
	}
	switch c.Class {
	case "compatible":
		return "go on"
	case "mapping":
		return "need a mapping" + which
	}
	return "stay with the older build" + which
}
