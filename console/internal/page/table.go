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
func (p *Page) Row(name, value string) {
	if value != "" {
		p.Put("<div><dt>%s</dt><dd>%s</dd></div>\n", name, value)
	}
}

// Figure writes a name with its value. The value links to the page link, unless link is "".
func (p *Page) Figure(name, value string, bad bool, link string) {
	class := ""
	if bad {
		class = ` class="bad"`
	}
	p.WriteString("<div" + class + ">")
	p.Put("<dt>%s</dt><dd>", name)
	if link == "" {
		p.Put("%s", value)
	} else {
		p.Put(`<a href="%s">%s</a>`, link, value)
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
