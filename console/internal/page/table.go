package page

import (
	"slices"

	"github.com/skald-go/skald"
)

// heads is the first row of a table.
// table begins a table that can be scrolled, by keyboard too. Its caption, with arguments as of put, is for
// who does not see it.
func (p *Page) Table(caption string, args ...any) {
	p.Put("<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\""+caption+"\"><table>\n",
		slices.Clone(args)...)
	p.Put("<caption class=\"out\">"+caption+"</caption>\n", args...)
}

// Heads is the first row of a table.
func (p *Page) Heads(names ...string) {
	p.Put("<tr>")
	for _, name := range names {
		p.Put("<th scope=\"col\">%s</th>", name)
	}
	p.Put("</tr>\n")
}

func (p *Page) Row(what, is string) {
	if is != "" {
		p.Put("<div><dt>%s</dt><dd>%s</dd></div>\n", what, is)
	}
}

func (p *Page) Figure(what, is string, bad bool, to string) {
	class := ""
	if bad {
		class = ` class="bad"`
	}
	p.WriteString("<div" + class + ">")
	p.Put("<dt>%s</dt><dd>", what)
	if to == "" {
		p.Put("%s", is)
	} else {
		p.Put(`<a href="%s">%s</a>`, to, is)
	}
	p.Put("</dd></div>\n")
}

func ClassOf(g skald.Grade) string {
	switch g {
	case skald.Failed:
		return "bad"
	case skald.Doubtful:
		return "warn"
	}
	return "fine"
}
