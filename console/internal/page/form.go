package page

import "slices"

// FilterForm writes the filter form of a list: a choice of sources, and a field for each name.
func (p *Page) FilterForm(path string, names ...string) {
	p.Put("<form class=\"filter\" method=\"get\" action=\"%s\" role=\"search\">\n", p.At(path))
	p.Put("<label>source <select name=\"in\"><option value=\"\">all</option>")
	for _, name := range p.Sources.Names {
		chosen := ""
		if name == p.Arg("in") {
			chosen = " selected"
		}
		p.WriteString("<option" + chosen)
		p.Put(" value=\"%s\">%s</option>", name, name)
	}
	p.Put("</select></label>\n")
	for _, name := range names {
		switch words := wordsOf(name); {
		case words != nil:
			p.choice(name, words)
		case isFlag(name):
			checked := ""
			if p.Flag(name) {
				checked = " checked"
			}
			p.Put("<label>%s <input type=\"checkbox\" name=\"%s\" value=\"1\"%s></label>\n", name,
				name, checked)
		default:
			p.Put("<label>%s <input name=\"%s\" value=\"%s\"></label>\n", name, name, p.Arg(name))
		}
	}
	p.Put("<button>Filter</button>")
	if p.URL.RawQuery != "" {
		p.Put(" <a href=\"%s\">all</a>", p.At(path))
	}
	p.Put("\n</form>\n")
}

// choice writes a drop-down list with the values of a filter.
func (p *Page) choice(name string, words []string) {
	p.Put("<label>%s <select name=\"%s\"><option value=\"\">any</option>", name, name)
	for _, word := range words {
		chosen := ""
		if word == p.Arg(name) {
			chosen = " selected"
		}
		p.Put("<option value=\"%s\"%s>%s</option>", word, chosen, word)
	}
	p.Put("</select></label>\n")
}

func isFlag(name string) bool {
	return slices.Contains([]string{"stuck", "failing", "paused", "overdue"}, name)
}

// Hidden writes hidden form fields. fields has names and values in turn.
func (p *Page) Hidden(fields ...string) {
	for i := 0; i+1 < len(fields); i += 2 {
		p.Put(`<input type="hidden" name="%s" value="%s">`, fields[i], fields[i+1])
	}
}
