package shortlog

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Control reports whether r is a control character: of C0, of C1, or one that changes the direction of
// text. A terminal or an editor acts on it, so that a reader sees something else than the text.
func Control(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// CheckName returns an error if name has a control character, such as a line break, or is not UTF-8. The
// error begins with about, the word for the name.
func CheckName(about, name string) error {
	if strings.ContainsFunc(name, unprintable) {
		return fmt.Errorf("%s %q has a control character, such as a line break, or is not UTF-8: give a printable name",
			about, name)
	}
	return nil
}

// Visible is text with each control character and each byte that is no text written out as in a Go string.
// With layout, tabs and line feeds stay.
func Visible(text string, layout bool) string {
	var out strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		stays := !Control(r) || layout && (r == '\t' || r == '\n')
		if raw := r == utf8.RuneError && n == 1; stays && !raw { // a byte may be a control character, too
			out.WriteString(text[:n])
		} else {
			quoted := strconv.QuoteToASCII(text[:n])
			out.WriteString(quoted[1 : len(quoted)-1])
		}
		text = text[n:]
	}
	return out.String()
}

// VisibleJSON is JSON with the control characters that encoding/json leaves in strings written out. It stands
// for the same value.
func VisibleJSON(text []byte) []byte {
	var out []byte
	for _, r := range string(text) {
		if Control(r) && r >= 0x7f {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// Shell is a word as a shell reads it. One with control characters, or bytes that are no text, is written as
// $'…', without them: a terminal that it is pasted into would take them for its own.
func Shell(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,"
	switch {
	case word != "" && strings.Trim(word, plain) == "":
		return word
	case strings.ContainsFunc(word, unprintable):
		return escaped(word)
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func unprintable(r rune) bool { return r == utf8.RuneError || Control(r) }

func escaped(word string) string {
	var out strings.Builder
	out.WriteString("$'")
	for len(word) > 0 {
		r, n := utf8.DecodeRuneInString(word)
		switch {
		case unprintable(r):
			for _, b := range []byte(word[:n]) {
				fmt.Fprintf(&out, `\x%02x`, b)
			}
		case r == '\'' || r == '\\':
			out.WriteString(`\` + word[:n])
		default:
			out.WriteString(word[:n])
		}
		word = word[n:]
	}
	return out.String() + "'"
}
