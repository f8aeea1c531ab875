package console

import "strings"

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// cut shortens a text that has no room.
func cut(s string, most int) string {
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}
