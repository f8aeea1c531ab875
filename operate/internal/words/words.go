// Package words has the forms in which an operator reads what was found: the words of a command as a shell
// takes them, the first line of an error, a time that may be missing.
package words

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

// Key is a key as a shell and --key take it: one that is no text in base64.
func Key(key []byte) string {
	const code = "base64:"
	text := string(key)
	if strings.HasPrefix(text, code) ||
		strings.ContainsFunc(text, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) {
		return code + base64.StdEncoding.EncodeToString(key)
	}
	return shortlog.Shell(text)
}

// FirstLine is the first line of an error's text.
func FirstLine(why string) string {
	line, _, _ := strings.Cut(why, "\n")
	return line
}

// Some is t, or nil where there is none, or JSON has no form for it.
func Some(t time.Time) *time.Time {
	if _, ok := column.Time(t); !ok || t.IsZero() {
		return nil
	}
	return &t
}

// Times says how often.
func Times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprint(n, " times")
}

// Time is a moment as a sentence has it.
func Time(t time.Time) string { return t.UTC().Format(time.RFC3339) }
