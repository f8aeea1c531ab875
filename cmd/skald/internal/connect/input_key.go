package connect

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
)

// binary64 is the prefix of a key in base64.
const binary64 = "base64:"

// Key is the value of a flag for a key. It is nil if the flag was not given. An empty key is not nil.
type Key []byte

// Set decodes the flag.
func (k *Key) Set(text string) (err error) {
	code, is := strings.CutPrefix(text, binary64)
	if !is {
		*k = []byte(text)
		return nil
	}
	if *k, err = base64.StdEncoding.DecodeString(code); err != nil {
		return errors.New("the text after base64: is not base64: copy the key from --json; " +
			"encode a key that begins with base64: in base64, too")
	}
	return nil
}

func (k *Key) String() string { return string(*k) }

// Type returns the name of the type in the help.
func (k *Key) Type() string { return "string" }

// KeyText formats a key as an argument for --key, quoted for a shell. It returns - if key is nil.
func KeyText(key []byte) string {
	text := string(key)
	quoted := strconv.Quote(text)
	switch {
	case key == nil:
		return "-"
	case quoted != `"`+text+`"`, strings.ContainsAny(text, "$`!"), strings.HasPrefix(text, binary64):
		return binary64 + base64.StdEncoding.EncodeToString(key)
	}
	return quoted
}
