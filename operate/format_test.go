package operate

import "testing"

// A command that a status names frees the key, whatever that is.
func TestTypedKeys(t *testing.T) {
	for key, want := range map[string]string{
		"o-1":         "o-1",
		"it's two":    `'it'\''s two'`,
		"a\x00\xff":   "base64:YQD/",
		"line\n":      "base64:bGluZQo=",
		"base64:AP8=": "base64:YmFzZTY0OkFQOD0=",
	} {
		if got := shellKey([]byte(key)); got != want {
			t.Errorf("%q is typed as %s, want %s", key, got, want)
		}
	}
}
