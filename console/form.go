package console

import "slices"

// filterForm lets a reader change the filters of a list. Each source is offered.
func (p *page) filterForm(path string, names ...string) {
	p.put("<form class=\"filter\" method=\"get\" action=\"%s\" role=\"search\">\n", p.at(path))
	p.put("<label>source <select name=\"in\"><option value=\"\">all</option>")
	for _, name := range p.q.sources.Names {
		chosen := ""
		if name == p.arg("in") {
			chosen = " selected"
		}
		p.WriteString("<option" + chosen)
		p.put(" value=\"%s\">%s</option>", name, name)
	}
	p.put("</select></label>\n")
	for _, name := range names {
		switch words := wordsOf(name); {
		case words != nil:
			p.choice(name, words)
		case isFlag(name):
			checked := ""
			if p.flag(name) {
				checked = " checked"
			}
			p.put("<label>%s <input type=\"checkbox\" name=\"%s\" value=\"1\"%s></label>\n", name, name, checked)
		default:
			p.put("<label>%s <input name=\"%s\" value=\"%s\"></label>\n", name, name, p.arg(name))
		}
	}
	p.put("<button>Filter</button>")
	if p.q.URL.RawQuery != "" {
		p.put(" <a href=\"%s\">all</a>", p.at(path))
	}
	p.put("\n</form>\n")
}

// choice offers the words that a filter knows.
func (p *page) choice(name string, words []string) {
	p.put("<label>%s <select name=\"%s\"><option value=\"\">any</option>", name, name)
	for _, word := range words {
		chosen := ""
		if word == p.arg(name) {
			chosen = " selected"
		}
		p.put("<option value=\"%s\"%s>%s</option>", word, chosen, word)
	}
	p.put("</select></label>\n")
}

func isFlag(name string) bool {
	return slices.Contains([]string{"stuck", "failing", "paused", "overdue"}, name)
}

func (p *page) hidden(fields ...string) {
	for i := 0; i+1 < len(fields); i += 2 {
		p.put(`<input type="hidden" name="%s" value="%s">`, fields[i], fields[i+1])
	}
}
