package foreign

import (
	"fmt"
	"strings"
)

// A template is text with columns in it.
type template []piece

// A piece is a column or a text.
type piece struct{ column, text string }

func parseTemplate(s string) (out template, err error) {
	for rest := s; rest != ""; {
		text, after, found := strings.Cut(rest, "${")
		if text != "" {
			out = append(out, piece{text: text})
		}
		if !found {
			break
		}
		column, behind, closed := strings.Cut(after, "}")
		if !closed || column == "" {
			return nil, fmt.Errorf("%q has a ${ without a column and a }", s)
		}
		out, rest = append(out, piece{column: column}), behind
	}
	return out, nil
}

// sql is the expression of a template that parseTemplate has read, of at most so many characters: more could
// not be published, and would be read for nothing.
func (t template) sql(most int) string {
	if len(t) == 0 {
		return "NULL::text"
	}
	parts := make([]string, len(t))
	for i, p := range t {
		if parts[i] = literal(p.text); p.column != "" {
			parts[i] = column(p.column) + "::text"
		}
	}
	return fmt.Sprintf("left(%s, %d)", strings.Join(parts, " || "), most)
}

// column is a column of the table, in a statement.
func column(name string) string { return "t." + quoted(name) }

func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// literal is a text, whatever standard_conforming_strings says.
func literal(s string) string {
	return " E'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'::text"
}

// array is a text that PostgreSQL reads as an array of texts: drivers differ in how they take a slice.
func array(all []string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, s := range all {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('"')
		b.WriteString(strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s))
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}
