package say

import (
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// Texts of participants, and ids and keys of strangers, may hold what a terminal takes for a command. Whoever
// looks sees it as strconv.Quote writes it.

// Line is a text as one line.
func Line(text string) string { return visible(strings.TrimRight(text, "\r\n"), false) }

// FirstLine is that of a text of several.
func FirstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return Line(line)
}

// Lines are a line each.
func Lines(all []string) string {
	out := make([]string, len(all))
	for i, one := range all {
		out[i] = Line(one)
	}
	return strings.Join(out, "\n")
}

// visible is text with each control character written out, but for tabs and breaks where they are the layout.
func visible(text string, layout bool) string {
	control := func(r rune) bool {
		return r < ' ' && (!layout || r != '\t' && r != '\n') || r >= 0x7f && r < 0xa0
	}
	var out strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		raw := r == utf8.RuneError && n == 1 // a byte may be one of them, too
		if control(r) || raw {
			quoted := strconv.Quote(text[:n])
			out.WriteString(quoted[1 : len(quoted)-1])
		} else {
			out.WriteString(text[:n])
		}
		text = text[n:]
	}
	return out.String()
}

// Plain writes to w for who looks: control characters are written out. Each write is of whole characters.
func Plain(w io.Writer) io.Writer { return plain{w} }

type plain struct{ to io.Writer }

func (p plain) Write(b []byte) (int, error) {
	if _, err := io.WriteString(p.to, visible(string(b), true)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Table writes columns for who looks.
func Table(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(Plain(w), 0, 0, 2, ' ', 0) }
