// This file writes keys, numbers, times and texts as the pages of a console show them.

package page

import (
	"encoding/base64"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"
)

const keyCode = "base64:"

// ToKey is the key that a text stands for: as it is, or after base64: in base64.
func ToKey(text string) ([]byte, error) {
	code, coded := strings.CutPrefix(text, keyCode)
	if !coded {
		return []byte(text), nil
	}
	key, err := base64.StdEncoding.DecodeString(code)
	if err != nil {
		return nil, NewRefusal(http.StatusBadRequest, "the key is text, or base64: and its bytes in base64")
	}
	return append([]byte{}, key...), nil // an empty key is a key
}

// Key is a key as ToKey takes it. Nil has none.
func Key(key []byte) string {
	text := string(key)
	strange := strings.HasPrefix(text, keyCode) || text == "" ||
		strings.ContainsFunc(text, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) })
	switch {
	case key == nil:
		return ""
	case strange:
		return keyCode + base64.StdEncoding.EncodeToString(key)
	}
	return text
}
