package httpidem

import (
	"net/http"
	"slices"
	"unicode/utf8"
)

// besideOf is h as JSON can hold it, which would write another character for bytes that are not UTF-8. It
// takes h.
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

// headers is what besideOf took.
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
