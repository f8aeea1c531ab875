package httpidem

import (
	"net/http"
	"slices"
	"unicode/utf8"
)

// besideOf splits h: values that are not UTF-8 go into Raw, because JSON would replace their bytes. It
// changes h.
func besideOf(h http.Header) beside {
	out := beside{Header: h, Raw: map[string][][]byte{}}
	for name, values := range h {
		if !slices.ContainsFunc(values, func(v string) bool { return !utf8.ValidString(v) }) {
			continue
		}
		for _, v := range values {
			out.Raw[name] = append(out.Raw[name], []byte(v))
		}
		delete(h, name)
	}
	return out
}

// headers returns the headers that besideOf split.
func (b beside) headers() http.Header {
	out := b.Header
	for name, values := range b.Raw {
		if out == nil {
			out = http.Header{}
		}
		for _, v := range values {
			out[name] = append(out[name], string(v))
		}
	}
	return out
}
