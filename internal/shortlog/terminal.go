package shortlog

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Control reports whether r is a control character: of C0, of C1, or one that changes the direction of text.
// With such a character, a terminal or an editor may show another text.
func Control(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// CheckName returns an error if name has a control character, such as a line break, or is not UTF-8. The
// error begins with the kind of the name: "the consumer", for example.
func CheckName(kind, name string) error {
	if strings.ContainsFunc(name, unprintable) {
		return fmt.Errorf("%s %q has a control character, such as a line break, or is not UTF-8: give a printable name",
			kind, name)
	}
	return nil
}

// Visible escapes the control characters and the invalid bytes of a text as in a Go string. If layout is
// true, it does not escape tabs and line feeds.
func Visible(text string, layout bool) string {
	var out strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		stays := !Control(r) || layout && (r == '\t' || r == '\n')
		if raw := r == utf8.RuneError && n == 1; stays && !raw { // raw: a byte that is not UTF-8
			out.WriteString(text[:n])
		} else {
			quoted := strconv.QuoteToASCII(text[:n])
			out.WriteString(quoted[1 : len(quoted)-1])
		}
		text = text[n:]
	}
	return out.String()
}

// VisibleJSON escapes the control characters that encoding/json does not escape. The result is JSON of the
// same value.
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

// Shell quotes a word for a shell. A word with control characters or invalid bytes gets the form $'…' with
// escapes, because a terminal would interpret pasted control characters.
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
