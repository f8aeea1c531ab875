package fingerprint

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// ErrNotText is the error for JSON with a string that is not Unicode text.
var ErrNotText = errors.New("a string in the JSON is not text: bytes that are not UTF-8, or half of a surrogate pair; " +
	"write it as UTF-8, or other bytes in base64")

// CheckJSON returns ErrNotText if a string in data has bytes that are not UTF-8, or an unpaired surrogate
// such as \ud800. encoding/json replaces both by U+FFFD, so different values would become equal. CheckJSON
// does not check the rest of the syntax.
func CheckJSON(data []byte) error {
	if !utf8.Valid(data) {
		return ErrNotText
	}
	for {
		at := bytes.IndexByte(data, '\\')
		if at < 0 {
			return nil
		}
		data = data[at:]
		first, is := escape(data)
		switch {
		case !is:
			data = data[min(2, len(data)):] // another escape, such as \n
		case !utf16.IsSurrogate(first):
			data = data[6:]
		default:
			second, _ := escape(data[6:])
			if utf16.DecodeRune(first, second) == utf8.RuneError {
				return ErrNotText
			}
			data = data[12:]
		}
	}
}

// escape returns the UTF-16 code unit if data begins with an escape such as \u00e9.
func escape(data []byte) (unit rune, is bool) {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(data[2:6]), 16, 16)
	return rune(n), err == nil
}
