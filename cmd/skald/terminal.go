package main

import (
	"io"
	"os"
	"strings"
)

// terminal tells whether somebody looks.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// quoted is word as a shell takes it.
func quoted(word string) string {
	if strings.ContainsAny(word, "?&;*$ ") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}
