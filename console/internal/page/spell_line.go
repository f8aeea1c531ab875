package page

import "strings"

// FirstLine returns the first line of s.
func FirstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// Cut shortens a text to limit characters. It adds an ellipsis to a text that it shortens.
func Cut(s string, limit int) string {
	n := 0
	for i := range s {
		if n++; n > limit {
			return s[:i] + "…"
		}
	}
	return s
}
