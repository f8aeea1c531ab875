package fingerprint_test

import (
	"errors"
	"testing"

	"github.com/skald-go/skald/internal/fingerprint"
)

// encoding/json would read each refused text as another one.
func TestCheckJSON(t *testing.T) {
	for text, refused := range map[string]bool{
		`{"id":"a"}`: false, `"ä\u00e4\n\\"`: false, `"\ud83d\ude00"`: false, `"\\ud800"`: false,
		`"\ufffd�"`: false, `"\`: false, `"\u12`: false, `"\uzzzz"`: false,
		"\"a\x80\"": true, `"\ud800"`: true, `"\uDC00"`: true, `"\ud800\ud800"`: true, `"\ud800x"`: true,
		`"\\\ud83d"`: true, `{"\udfff":1}`: true, `"\ud83d\n"`: true,
	} {
		if err := fingerprint.CheckJSON([]byte(text)); errors.Is(err, fingerprint.ErrNotText) != refused {
			t.Errorf("%q: %v", text, err)
		}
	}
}
