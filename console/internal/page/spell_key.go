package page

import (
	"encoding/base64"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"
)

const keyCode = "base64:"

// ToKey parses a key from a form or a URL: text, or "base64:" and the bytes in base64.
func ToKey(text string) ([]byte, error) {
	code, coded := strings.CutPrefix(text, keyCode)
	if !coded {
		return []byte(text), nil
	}
	key, err := base64.StdEncoding.DecodeString(code)
	if err != nil {
		return nil, NewRefusal(http.StatusBadRequest, "a key is text, or base64: and its bytes in base64")
	}
	return append([]byte{}, key...), nil // not nil: an empty key is a key, too
}

// Key formats a key for ToKey. It returns "" for a nil key.
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
