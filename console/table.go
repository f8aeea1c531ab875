package console

import (
	"slices"

	"github.com/skald-go/skald"
)

// heads is the first row of a table.
// table begins a table that can be scrolled, by keyboard too. Its caption, with arguments as of put, is for
// who does not see it.
func (p *page) table(caption string, args ...any) {
	p.put("<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\""+caption+"\"><table>\n",
		slices.Clone(args)...)
	p.put("<caption class=\"out\">"+caption+"</caption>\n", args...)
}

// heads is the first row of a table.
func (p *page) heads(names ...string) {
	p.put("<tr>")
	for _, name := range names {
		p.put("<th scope=\"col\">%s</th>", name)
	}
	p.put("</tr>\n")
}

func (p *page) row(what, is string) {
	if is != "" {
		p.put("<div><dt>%s</dt><dd>%s</dd></div>\n", what, is)
	}
}

func (p *page) figure(what, is string, bad bool, to string) {
	class := ""
	if bad {
		class = ` class="bad"`
	}
	p.WriteString("<div" + class + ">")
	p.put("<dt>%s</dt><dd>", what)
	if to == "" {
		p.put("%s", is)
	} else {
		p.put(`<a href="%s">%s</a>`, to, is)
	}
	p.put("</dd></div>\n")
}

func gradeClass(g skald.Grade) string {
	switch g {
	case skald.Failed:
		return "bad"
	case skald.Doubtful:
		return "warn"
	}
	return "fine"
}
