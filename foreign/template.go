package foreign

import (
	"fmt"
	"strings"
)

// template is a parsed template: texts and columns.
type template []piece

// piece is either a column or a text.
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

// sql returns the SQL expression of a template. It limits the result to maxLength characters, because a
// longer value cannot be published.
func (t template) sql(maxLength int) string {
	if len(t) == 0 {
		return "NULL::text"
	}
	parts := make([]string, len(t))
	for i, p := range t {
		if parts[i] = literal(p.text); p.column != "" {
			parts[i] = column(p.column) + "::text"
		}
	}
	return fmt.Sprintf("left(%s, %d)", strings.Join(parts, " || "), maxLength)
}

// column returns the SQL expression of a column of the table.
func column(name string) string { return "t." + quoted(name) }

func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// literal returns a string literal of SQL. The prefix E makes it independent of standard_conforming_strings.
func literal(s string) string {
	return " E'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'::text"
}

// array returns the text of a PostgreSQL array. It is text because drivers encode slices in different ways.
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
