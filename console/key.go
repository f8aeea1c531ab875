package console

import (
	"encoding/base64"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"
)

const keyCode = "base64:"

func keyOf(text string) ([]byte, error) {
	code, coded := strings.CutPrefix(text, keyCode)
	if !coded {
		return []byte(text), nil
	}
	key, err := base64.StdEncoding.DecodeString(code)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "the key is text, or base64: and its bytes in base64")
	}
	return append([]byte{}, key...), nil // an empty key is a key
}

// keyText is a key as keyOf takes it. Nil has none.
func keyText(key []byte) string {
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
