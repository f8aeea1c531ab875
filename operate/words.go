package operate

import (
	"encoding/base64"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/skald-go/skald/internal/held"
)

// keyWord is a key as a shell and --key take it: one that is no text in base64.
func keyWord(key []byte) string {
	const code = "base64:"
	text := string(key)
	if strings.HasPrefix(text, code) || strings.ContainsFunc(text, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) {
		return code + base64.StdEncoding.EncodeToString(key)
	}
	return shellWord(text)
}

// shellWord is a word as a shell reads it.
func shellWord(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// firstLine is the first line of an error's text.
func firstLine(why string) string {
	line, _, _ := strings.Cut(why, "\n")
	return line
}

// some is t, or nil where there is none, or JSON has no form for it.
func some(t time.Time) *time.Time {
	if _, ok := held.Time(t); !ok || t.IsZero() {
		return nil
	}
	return &t
}
