// This file formats keys, times and errors for people and shells.

package operate

import (
	"encoding/base64"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/internal/shortlog"
)

// shellKey returns a key as an argument for the flag --key, quoted for a shell. A key that is not printable
// text gets the prefix "base64:".
func shellKey(key []byte) string {
	const code = "base64:"
	text := string(key)
	if strings.HasPrefix(text, code) ||
		strings.ContainsFunc(text, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) {
		return code + base64.StdEncoding.EncodeToString(key)
	}
	return shortlog.Shell(text)
}

// spaced returns text with a space before it, or "" if text is empty.
func spaced(text string) string {
	if text == "" {
		return ""
	}
	return " " + text
}

// sagaArgs returns the arguments that name a saga, quoted for a shell. "--" comes first, because a name or a
// key may begin with a dash.
func sagaArgs(name, key string) string {
	return " -- " + shortlog.Shell(name) + " " + shortlog.Shell(key)
}

// firstLine returns the first line of an error's text.
func firstLine(why string) string {
	line, _, _ := strings.Cut(why, "\n")
	return line
}

// timeOrNil returns t, or nil if t is zero or JSON cannot hold it.
func timeOrNil(t time.Time) *time.Time {
	if _, ok := column.Time(t); !ok || t.IsZero() {
		return nil
	}
	return &t
}

// timesText returns n as "once" or "N times".
func timesText(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprint(n, " times")
}

// formatTime formats t in UTC for a sentence.
func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
