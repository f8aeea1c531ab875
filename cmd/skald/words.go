package main

import (
	"fmt"
	"strings"
)

// firstLine is that of a text of several.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// shortKey keeps a key in its column.
func shortKey(key string) string { return strings.Trim(fmt.Sprintf("%.60q", key), `"`) }

// quoted is word as a shell takes it.
func quoted(word string) string {
	if strings.ContainsAny(word, "?&;*$ '\"()<>|\\`#") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}
