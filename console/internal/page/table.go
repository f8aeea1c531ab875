package page

import (
	"slices"

	"github.com/skald-go/skald"
)

// Table begins a table that users can also scroll with the keyboard. The caption is for screen readers. It
// has arguments as in Put.
func (p *Page) Table(caption string, args ...any) {
	p.Put("<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\""+caption+"\"><table>\n",
		slices.Clone(args)...)
	p.Put("<caption class=\"out\">"+caption+"</caption>\n", args...)
}

// Heads writes the header row of a table.
func (p *Page) Heads(names ...string) {
	p.Put("<tr>")
	for _, name := range names {
		p.Put("<th scope=\"col\">%s</th>", name)
	}
	p.Put("</tr>\n")
}

// Row writes a name and its value in a list of values. It writes nothing if the value is empty.
func (p *Page) Row(what, is string) {
	if is != "" {
		p.Put("<div><dt>%s</dt><dd>%s</dd></div>\n", what, is)
	}
}

// Figure writes a name with a number. The number links to the page to, unless to is "".
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

// ClassOf returns the CSS class of a grade.
func ClassOf(g skald.Grade) string {
	switch g {
	case skald.Failed:
		return "bad"
	case skald.Doubtful:
		return "warn"
	}
	return "fine"
}
