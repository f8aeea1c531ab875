package words

import (
	"os/exec"
	"strings"
	"testing"
)

// A command that a status names frees the key, whatever that is.
func TestTypedKeys(t *testing.T) {
	for key, want := range map[string]string{
		"o-1":         "o-1",
		"it's two":    `'it'\''s two'`,
		"a\x00\xff":   "base64:YQD/",
		"line\n":      "base64:bGluZQo=",
		"base64:AP8=": "base64:YmFzZTY0OkFQOD0=",
	} {
		if got := Key([]byte(key)); got != want {
			t.Errorf("%q is typed as %s, want %s", key, got, want)
		}
	}
}

// A word with control characters is typed without them, and a shell reads it as it was.
func TestTypedControls(t *testing.T) {
	for word, want := range map[string]string{
		"o-1":                  "o-1",
		"it's":                 `'it'\''s'`,
		"\x1b]0;pwned\a it's":  `$'\x1b]0;pwned\x07 it\'s'`,
		"a\\b\r\n\u009b2J\x7f": `$'a\\b\x0d\x0a\xc2\x9b2J\x7f'`,
	} {
		got := Shell(word)
		if got != want {
			t.Errorf("%q is typed as %s, want %s", word, got, want)
		}
		said, err := exec.CommandContext(t.Context(), "bash", "-c", "printf '%s|' "+got).Output()
		if err == nil && strings.TrimSuffix(string(said), "|") != word {
			t.Errorf("%s is read as %q, want %q", got, said, word)
		}
	}
}
