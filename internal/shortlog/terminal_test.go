package shortlog_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/skald-go/skald/internal/shortlog"
)

// A word with control characters is typed without them, and a shell reads it as it was.
func TestTypedControls(t *testing.T) {
	for word, want := range map[string]string{
		"o-1":                  "o-1",
		"it's":                 `'it'\''s'`,
		"\x1b]0;pwned\a it's":  `$'\x1b]0;pwned\x07 it\'s'`,
		"a\u202eb\u2066":       `$'a\xe2\x80\xaeb\xe2\x81\xa6'`,
		"":                     "''",
		"a\\b\r\n\u009b2J\x7f": `$'a\\b\x0d\x0a\xc2\x9b2J\x7f'`,
	} {
		got := shortlog.Shell(word)
		if got != want {
			t.Errorf("%q is typed as %s, want %s", word, got, want)
		}
		said, err := exec.CommandContext(t.Context(), "bash", "-c", "printf '%s|' "+got).Output()
		if err == nil && strings.TrimSuffix(string(said), "|") != word {
			t.Errorf("%s is read as %q, want %q", got, said, word)
		}
	}
}

// What changes how a text looks is written out, in lists and in JSON, which stands for the same value.
func TestControlsAreVisible(t *testing.T) {
	const text = "a\x1b[2J\x7f\u0085\u009b\u202e\u2066\u200f\u061cz\té 日本\n"
	for layout, want := range map[bool]string{
		true:  `a\x1b[2J\x7f\u0085\u009b\u202e\u2066\u200f\u061cz` + "\té 日本\n",
		false: `a\x1b[2J\x7f\u0085\u009b\u202e\u2066\u200f\u061cz\té 日本\n`,
	} {
		if got := shortlog.Visible(text, layout); got != want {
			t.Errorf("%v: %q, want %q", layout, got, want)
		}
	}
	if got := shortlog.Visible("\x9b\xff", true); got != `\x9b\xff` {
		t.Errorf("bytes: %q", got)
	}
	plain, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	safe, back := shortlog.VisibleJSON(plain), ""
	if err := json.Unmarshal(safe, &back); err != nil || back != text ||
		strings.ContainsFunc(string(safe), shortlog.Control) {
		t.Errorf("%s is read as %q, %v", safe, back, err)
	}
}
