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

// keyWord is a key as a shell and --key take it: one that is no text in base64.
func keyWord(key []byte) string {
	const code = "base64:"
	text := string(key)
	if strings.HasPrefix(text, code) ||
		strings.ContainsFunc(text, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) {
		return code + base64.StdEncoding.EncodeToString(key)
	}
	return shortlog.Shell(text)
}

// firstLine is the first line of an error's text.
func firstLine(why string) string {
	line, _, _ := strings.Cut(why, "\n")
	return line
}

// someTime is t, or nil where there is none, or JSON has no form for it.
func someTime(t time.Time) *time.Time {
	if _, ok := column.Time(t); !ok || t.IsZero() {
		return nil
	}
	return &t
}

// timesText says how often.
func timesText(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprint(n, " times")
}

// timeText is a moment as a sentence has it.
func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339) }
