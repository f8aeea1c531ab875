package connect

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
)

// binary64 is what a key begins with that is given in base64.
const binary64 = "base64:"

// A Key is a key that a flag gives; nil: none was given. One that is empty is a key, too.
type Key []byte

// Set reads what was typed.
func (k *Key) Set(text string) (err error) {
	code, is := strings.CutPrefix(text, binary64)
	if !is {
		*k = []byte(text)
		return nil
	}
	if *k, err = base64.StdEncoding.DecodeString(code); err != nil {
		return errors.New("after base64: comes the key as --json prints it; " +
			"a key that begins with base64: itself is given in base64, too")
	}
	return nil
}

func (k *Key) String() string { return string(*k) }

// Type is what the help calls it.
func (k *Key) Type() string { return "string" }

// KeyText is a key as a shell and --key take it; - is none.
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
